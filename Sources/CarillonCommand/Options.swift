internal import ArgumentParser
internal import Carillon
internal import PushWire

/// Values that several commands take, checked in one place.
enum Options {
  /// Refuses flags that set the same as `other`.
  static func exclude(_ flags: [(String, Bool)], _ other: String, because reason: String) throws {
    for (flag, isGiven) in flags where isGiven {
      throw ValidationError("\(flag) and \(other) exclude each other: \(reason).")
    }
  }

  /// Refuses flags that have no meaning without `other`.
  static func require(_ other: String, for flags: [(String, Bool)], because reason: String = "") throws {
    for (flag, isGiven) in flags where isGiven { throw ValidationError("\(flag) needs \(other)\(reason).") }
  }

  /// Reads the value of a flag. An error names the flag.
  static func value<Value>(_ flag: String, _ read: () throws(ValueError) -> Value) throws -> Value {
    do throws(ValueError) { return try read() } catch { throw ValidationError("\(flag) \(error.problem).") }
  }

  static func check(_ number: Int?, flag: String, in range: ClosedRange<Int>) throws {
    guard let number, !range.contains(number) else { return }
    throw ValidationError("\(flag) must be from \(range.lowerBound) to \(range.upperBound), not \(number).")
  }

  static func command(_ number: Int) throws -> FrameVersion {
    guard let byte = UInt8(exactly: number), let command = FrameVersion(rawValue: byte) else {
      throw ValidationError("--command must be 0, 1 or 2, not \(number).")
    }
    return command
  }

  static func priority(_ number: Int?) throws -> UInt8? {
    guard let number else { return nil }
    guard let priority = UInt8(exactly: number).flatMap(PushPriority.init) else {
      throw ValidationError("--priority must be 5 or 10, or 1 over HTTP/2, not \(number).")
    }
    return priority.rawValue
  }

  static func port(_ number: Int?, flag: String) throws {
    guard let number, !(0...65535).contains(number) else { return }
    throw ValidationError("\(flag) must be a port from 0 (any free port) to 65535, not \(number).")
  }

  /// A duration with its unit, or a plain number of seconds.
  static func duration(
    _ text: String, flag: String, in range: ClosedRange<Duration> = .zero ... .seconds(604_800)
  ) throws -> Duration {
    try value(flag) { () throws(ValueError) in try Quantity.duration(text, in: range, plainIsSeconds: true) }
  }

  /// Notifications per second.
  static func rate(_ text: String, flag: String) throws -> Double {
    guard let rate = Quantity.rate(text) else {
      throw ValidationError("\(flag) must be a rate such as 5000/s or 300/m, not \(text.cited).")
    }
    return rate
  }

  static func endpoint(_ text: String, flag: String) throws -> Endpoint {
    guard let endpoint = Endpoint(text) else {
      throw ValidationError("\(flag) must be HOST:PORT, as in gateway.example.com:2195, not \"\(text)\".")
    }
    return endpoint
  }
}
