internal import PushWire

/// A value that a person wrote, and that a setting cannot have.
package struct ValueError: Error, Hashable, Sendable {
  /// The rest of a sentence that begins with the name of the setting, such as `must be from 1 to
  /// 1000, not 0`. The caller adds the name: a flag, or a key of a file.
  package let problem: String

  package init(_ problem: String) { self.problem = problem }
}

extension Quantity {
  /// A whole number.
  package static func integer(_ text: String, in range: ClosedRange<Int>) throws(ValueError) -> Int {
    guard let value = Int(text), range.contains(value) else {
      throw ValueError("must be a whole number from \(range.lowerBound) to \(range.upperBound), not \(text.cited)")
    }
    return value
  }

  /// A size such as `64KiB`.
  package static func byteCount(_ text: String, in range: ClosedRange<Int>) throws(ValueError) -> Int {
    guard let value = byteCount(text), range.contains(value) else {
      throw ValueError(
        "must be a size from \(describe(byteCount: range.lowerBound)) to "
          + "\(describe(byteCount: range.upperBound)), not \(text.cited)\(advice(byteCount: text))")
    }
    return value
  }

  /// What a size with a unit that has two meanings should be.
  private static func advice(byteCount text: String) -> String {
    for unit in ["k", "m", "g"] where text.lowercased().hasSuffix(unit + "b") || text.lowercased().hasSuffix(unit) {
      let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
      let corrected = "\(digits)\(unit.uppercased())iB"
      return byteCount(corrected) == nil ? "" : "; write \(corrected)"
    }
    return ""
  }

  /// A duration such as `5ms`.
  ///
  /// - Parameter plainIsSeconds: A number without a unit is allowed, and counts seconds.
  package static func duration(
    _ text: String, in range: ClosedRange<Duration>, plainIsSeconds: Bool = false
  ) throws(ValueError) -> Duration {
    let value = duration(text) ?? (plainIsSeconds ? duration(text + "s") : nil)
    guard let value, range.contains(value) else {
      throw ValueError(
        "must be a duration from \(describe(range.lowerBound)) to \(describe(range.upperBound)), not \(text.cited)"
          + (value == nil ? "; its units are us, ms, s, m, h and d" : ""))
    }
    return value
  }
}

extension String {
  /// The text in quotation marks, for errors. Long texts are cut, and control characters are
  /// escaped.
  package var cited: String { "\"\(escapedForTerminal(atMost: 64))\"" }
}

/// What is wrong in a file that a person wrote, and where. One sentence: place, problem, what to
/// do.
package struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
  package let file: String
  /// From 1; nil when the file as a whole is meant.
  package let line: Int?
  package let problem: String

  package init(file: String, line: Int? = nil, problem: String) {
    (self.file, self.line, self.problem) = (file, line, problem)
  }

  package var description: String {
    (line.map { "\(file):\($0): \(problem)" } ?? "\(file): \(problem)").escapedForTerminal
  }
}
