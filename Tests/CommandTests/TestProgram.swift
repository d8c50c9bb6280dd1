internal import Foundation
internal import Support

/// A program that a test has started: a child process, or a part of the test's own process.
protocol TestProgram: Sendable {
  var identifier: pid_t { get }
  var hasEnded: Bool { get }
  /// The standard error so far.
  var errors: String { get }

  func send(_ signal: Int32)
  func ending() async -> Ending
  /// The line of standard output with this index; nil if the output ends before.
  func line(_ index: Int) async -> String?
}

extension ChildProcess: TestProgram {}
