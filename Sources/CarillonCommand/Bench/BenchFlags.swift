internal import ArgumentParser
internal import Carillon
internal import PushBench
internal import PushWire

/// Reads the lists and sizes that `carillon bench` takes. Each error is one sentence that names the
/// flag.
enum BenchFlags {
  /// The most values of one variable: more is a mistake, not a plot.
  static let valueCountLimit = 32

  /// `1,2,4`, each once.
  static func list<Value: Hashable>(
    _ text: String, flag: String, example: String, _ read: (String) -> Value?
  ) throws -> [Value] {
    let parts = text.split(separator: ",", omittingEmptySubsequences: false).map { $0.trimming(" ") }
    guard parts.count <= valueCountLimit else {
      throw ValidationError("\(flag) takes at most \(valueCountLimit) values, not \(parts.count).")
    }
    var values: [Value] = []
    for part in parts {
      guard let value = read(part) else {
        throw ValidationError("\(flag) must be a value or a list such as \(example), not \"\(text)\".")
      }
      guard !values.contains(value) else { throw ValidationError("\(flag) names \(part) twice.") }
      values.append(value)
    }
    return values
  }

  static func counts(_ text: String, flag: String, in range: ClosedRange<Int>) throws -> [Int] {
    let values = try list(text, flag: flag, example: "1,10,100") { Int($0) }
    for value in values where !range.contains(value) {
      throw ValidationError("\(flag) must be from \(range.lowerBound) to \(range.upperBound), not \(value).")
    }
    return values
  }

  static func batches(_ text: String) throws -> [Int] {
    let values = try list(text, flag: "--batch", example: "4KiB,64KiB", Quantity.byteCount)
    for value in values where !(1...16 << 20).contains(value) {
      throw ValidationError(
        "--batch must be from 1 byte (one frame in each write) to 16MiB, not \(Quantity.describe(byteCount: value)).")
    }
    return values
  }

  static func latencies(_ text: String) throws -> [Duration] {
    let values = try list(text, flag: "--latency", example: "0ms,20ms,100ms") {
      Quantity.duration($0) ?? Quantity.duration($0 + "s")
    }
    for value in values where !(.zero ... .seconds(10)).contains(value) {
      throw ValidationError("--latency must be from 0ms to 10s, not \(Quantity.describe(value)).")
    }
    // The simulator's clockwork is as fine as that.
    for value in values where value.wholeNanoseconds % 1_000_000 != 0 {
      throw ValidationError("--latency must be whole milliseconds, not \(Quantity.describe(value)).")
    }
    return values
  }

  /// Notifications per second, plain or with a unit; `max` is nil.
  static func rates(_ text: String, flag: String, example: String) throws -> [Double?] {
    let values: [Double?] = try list(text, flag: flag, example: example) { part -> Double?? in
      if part == "max" { return .some(nil) }
      guard let rate = Quantity.rate(part) ?? Quantity.rate(part + "/s") else { return nil }
      return .some(rate)
    }
    for value in values {
      if let value, !(0.1...100_000_000).contains(value) {
        throw ValidationError("\(flag) must be from 0.1 to 100000000 per second, not \"\(text)\".")
      }
    }
    return values
  }

  static func duration(_ text: String, flag: String, in range: ClosedRange<Duration>) throws -> Duration {
    let duration = try Options.duration(text, flag: flag)
    guard range.contains(duration) else {
      throw ValidationError(
        "\(flag) must be from \(Quantity.describe(range.lowerBound)) to \(Quantity.describe(range.upperBound)), not "
          + "\"\(text)\".")
    }
    return duration
  }
}

extension Substring {
  fileprivate func trimming(_ character: Character) -> String {
    var rest = self
    while rest.first == character { rest.removeFirst() }
    while rest.last == character { rest.removeLast() }
    return String(rest)
  }
}
