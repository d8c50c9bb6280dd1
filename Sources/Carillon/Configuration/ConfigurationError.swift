internal import PushWire

/// What is wrong in a file that a person wrote, and where. One sentence: place, problem, what to
/// do.
package struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
  package let file: String
  /// From 1; nil when the file as a whole is meant.
  package let line: Int?
  package let problem: String

  package init(file: String, line: Int? = nil, problem: String) {
    self.file = file
    self.line = line
    self.problem = problem
  }

  package var description: String {
    (line.map { "\(file):\($0): \(problem)" } ?? "\(file): \(problem)").escapedForTerminal
  }
}
