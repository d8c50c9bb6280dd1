internal import ArgumentParser
internal import Carillon
internal import PushWire

/// Values that several commands take, checked in one place.
enum Options {
  /// Refuses flags that say what `other` says too.
  static func exclude(_ flags: [(String, Bool)], _ other: String, because reason: String) throws {
    for (flag, isGiven) in flags where isGiven {
      throw ValidationError("\(flag) and \(other) exclude each other: \(reason).")
    }
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

  static func port(_ number: Int, flag: String) throws {
    guard (0...65535).contains(number) else {
      throw ValidationError("\(flag) must be a port from 0 (any free one) to 65535, not \(number).")
    }
  }

  /// A duration with its unit, or a plain number of seconds.
  static func duration(_ text: String, flag: String) throws -> Duration {
    guard let duration = Quantity.duration(text) ?? Quantity.duration(text + "s") else {
      throw ValidationError(
        "\(flag) must be a duration such as 200ms or 5s (without a unit: seconds), not \"\(text)\".")
    }
    return duration
  }

  static func endpoint(_ text: String, flag: String) throws -> Endpoint {
    guard let endpoint = Endpoint(text) else {
      throw ValidationError("\(flag) must be HOST:PORT, as in gateway.example.com:2195, not \"\(text)\".")
    }
    return endpoint
  }
}
