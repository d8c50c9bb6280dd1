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

extension TestProgram {
  /// Of each thread its name, its state, and where in the kernel it waits: for one that hangs.
  var threads: String {
    let folder = "/proc/\(identifier)/task"
    let threads = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    return threads.sorted().map { thread in
      ["stat", "wchan"].map { (try? String(contentsOfFile: "\(folder)/\(thread)/\($0)", encoding: .utf8)) ?? "?" }
        .map { $0.split(separator: " ").prefix(3).joined(separator: " ") }.joined(separator: " ")
    }.joined(separator: ", ")
  }
}
