package import Carillon
internal import PushTransport
internal import PushWire

extension BenchPlan {
  /// The most values of one variable. A plot with more is unreadable.
  package static let valueCountLimit = 32
  package static let durations = Duration.milliseconds(100) ... .seconds(3600)
  package static let warmUps = Duration.zero ... .seconds(600)
  package static let counts = 1...1_000_000_000
  package static let windowCounts = 1...262_144
  package static let threadCounts = 1...256

  /// Sets the values of a variable from text, such as `1,10,100`.
  ///
  /// The bounds of payloads depend on ``command`` and the transports, and those of streams on the
  /// transports: set these first.
  package mutating func set(_ variable: BenchVariable, to text: String) throws(ValueError) {
    switch variable {
    case .transport:
      sweep.transports = try Self.list(text, example: "binary,http2") { AppConfiguration.Transport.Name(rawValue: $0) }
    case .apps: sweep.apps = try Self.integers(text, in: 1...1000)
    case .connections: sweep.connections = try Self.integers(text, in: AppSetting.Bounds.connections)
    case .streams:
      sweep.streams = try Self.integers(text, in: 1...RequestPolicy.streamCountLimit)
      // The other variables are measured with the first transport.
      guard sweep.streams.count == 1 || sweep.transports.first == .http2 else {
        throw ValueError("can have several values only if http2 is the first transport")
      }
    case .batch: sweep.batchByteCounts = try Self.byteCounts(text)
    case .payload:
      let limits = sweep.transports.map { $0 == .http2 ? PushType.alert.payloadLimit : command.payloadLimitDefault }
      sweep.payloadByteCounts = try Self.integers(text, in: BenchPayload.leastByteCount...(limits.min() ?? 256))
    case .rate: sweep.rates = try Self.rates(text, example: "100,10000,max")
    case .latency: sweep.latencies = try Self.latencies(text)
    }
  }

  /// Sets the rate of the additional app from text.
  package mutating func setTrickle(_ text: String) throws(ValueError) {
    guard let rate = try Self.rates(text, example: "100").first ?? nil else {
      throw ValueError("must be a number per second, not \(text.cited)")
    }
    trickle = rate
  }

  // MARK: Lists

  /// Values with commas between them, none of them twice.
  private static func list<Value: Hashable>(
    _ text: String, example: String, _ read: (String) -> Value?
  ) throws(ValueError) -> [Value] {
    let parts = text.split(separator: ",", omittingEmptySubsequences: false).map { String($0.trimmingSpaces) }
    guard parts.count <= valueCountLimit else {
      throw ValueError("can have at most \(valueCountLimit) values, not \(parts.count)")
    }
    var values: [Value] = []
    for part in parts {
      guard let value = read(part) else {
        throw ValueError("must be a value or a list such as \(example), not \(text.cited)")
      }
      guard !values.contains(value) else { throw ValueError("has the value \(part) twice") }
      values.append(value)
    }
    return values
  }

  private static func integers(_ text: String, in range: ClosedRange<Int>) throws(ValueError) -> [Int] {
    let values = try list(text, example: "1,10,100") { Int($0) }
    for value in values where !range.contains(value) {
      throw ValueError("must be from \(range.lowerBound) to \(range.upperBound), not \(value)")
    }
    return values
  }

  private static func byteCounts(_ text: String) throws(ValueError) -> [Int] {
    let values = try list(text, example: "4KiB,64KiB", Quantity.byteCount)
    for value in values where !(1...16 << 20).contains(value) {
      throw ValueError(
        "must be from 1 byte (one frame in each write) to 16MiB, not \(Quantity.describe(byteCount: value))")
    }
    return values
  }

  private static func latencies(_ text: String) throws(ValueError) -> [Duration] {
    let values = try list(text, example: "0ms,20ms,100ms") { Quantity.duration($0) ?? Quantity.duration($0 + "s") }
    for value in values where !(.zero ... .seconds(10)).contains(value) {
      throw ValueError("must be from 0ms to 10s, not \(Quantity.describe(value))")
    }
    // The simulator's timers have this resolution.
    for value in values where value.wholeNanoseconds % 1_000_000 != 0 {
      throw ValueError("must be whole milliseconds, not \(Quantity.describe(value))")
    }
    return values
  }

  /// Notifications per second, plain or with a unit; `max` is nil.
  private static func rates(_ text: String, example: String) throws(ValueError) -> [Double?] {
    let values: [Double?] = try list(text, example: example) { part -> Double?? in
      if part == "max" { return .some(nil) }
      guard let rate = Quantity.rate(part) ?? Quantity.rate(part + "/s") else { return nil }
      return .some(rate)
    }
    for value in values {
      if let value, !(0.1...100_000_000).contains(value) {
        throw ValueError("must be from 0.1 to 100000000 per second, not \(text.cited)")
      }
    }
    return values
  }
}

extension Substring {
  fileprivate var trimmingSpaces: Substring {
    var rest = self
    while rest.first == " " { rest.removeFirst() }
    while rest.last == " " { rest.removeLast() }
    return rest
  }
}
