internal import Foundation
internal import Synchronization
internal import Testing

/// The `openssl` command: a foreign TLS implementation.
enum OpenSSLCommand {
  struct Failure: Error, CustomStringConvertible { let description: String }

  /// Runs it to its end. A failure is an error with its output.
  @discardableResult
  static func run(_ arguments: [String], program: String = "/usr/bin/openssl") throws -> String {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: program)
    process.arguments = arguments
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = pipe
    process.standardInput = FileHandle.nullDevice
    try process.run()
    let output = pipe.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    let text = String(decoding: output, as: UTF8.self)
    guard process.terminationStatus == 0 else {
      throw Failure(description: "\(program) \(arguments.joined(separator: " ")): \(text)")
    }
    return text
  }

  /// A child process that continues running: `s_server`, `s_client`, or another program.
  final class Child: Sendable {
    private let process: Process
    private let input = Pipe()
    private let output: Mutex<(text: String, waiting: [(String, CheckedContinuation<Bool, Never>)], ended: Bool)> =
      Mutex(("", [], false))

    init(_ arguments: [String], program: String = "/usr/bin/openssl") throws {
      process = Process()
      process.executableURL = URL(fileURLWithPath: program)
      process.arguments = arguments
      process.standardInput = input
      let pipe = Pipe()
      process.standardOutput = pipe
      process.standardError = pipe
      pipe.fileHandleForReading.readabilityHandler = { [weak self] handle in
        let data = handle.availableData
        self?.took(data)
        if data.isEmpty { handle.readabilityHandler = nil }
      }
      try process.run()
    }

    deinit {
      terminate()
    }

    func write(_ text: String) { input.fileHandleForWriting.write(Data(text.utf8)) }
    func closeInput() { try? input.fileHandleForWriting.close() }

    /// Uses SIGKILL. A child inherits the signal mask of the thread that started it, and threads of
    /// the test runner block SIGTERM.
    func terminate() {
      if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }

    var isRunning: Bool { process.isRunning }
    var text: String { output.withLock { $0.text } }

    /// Waits until `piece` has been printed. Returns false if the program ended without it.
    func waits(for piece: String) async -> Bool {
      await withCheckedContinuation { continuation in
        let known = output.withLock { output -> Bool? in
          if output.text.contains(piece) { return true }
          if output.ended { return false }
          output.waiting.append((piece, continuation))
          return nil
        }
        if let known { continuation.resume(returning: known) }
      }
    }

    private func took(_ data: Data) {
      let ready = output.withLock { output in
        output.text += String(decoding: data, as: UTF8.self)
        if data.isEmpty { output.ended = true }
        let (text, ended) = (output.text, output.ended)
        let ready = output.waiting.filter { ended || text.contains($0.0) }.map { ($0.1, text.contains($0.0)) }
        output.waiting.removeAll { ended || text.contains($0.0) }
        return ready
      }
      for (continuation, found) in ready { continuation.resume(returning: found) }
    }
  }

  /// Starts `s_server` on a port that it chooses, and waits until it listens.
  static func server(_ arguments: [String]) async throws -> (child: Child, port: Int) {
    let child = try Child(["s_server", "-accept", "127.0.0.1:0", "-no_anti_replay"] + arguments)
    guard await child.waits(for: "ACCEPT 127.0.0.1:") else { throw Failure(description: "s_server: \(child.text)") }
    // The line may be incomplete; its line end is missing then.
    while true {
      let after = child.text.components(separatedBy: "ACCEPT 127.0.0.1:").dropFirst().first ?? ""
      if let line = after.split(separator: "\n", omittingEmptySubsequences: false).first, after.contains("\n"),
        let port = Int(line)
      {
        return (child, port)
      }
      guard await child.waits(for: "\n") else { throw Failure(description: "s_server: \(child.text)") }
      await Task.yield()
    }
  }
}
