internal import Foundation
internal import Synchronization

/// How a run of the built `carillon` ended.
struct Ending: CustomStringConvertible {
  let status: Int32
  let output: String
  let errors: String
  var description: String { "exit status \(status)\nstandard output: \(output)\nstandard error: \(errors)" }
}

/// The built executable as a child process.
final class ChildProcess: Sendable {
  private struct State {
    var lines: [String] = []
    var partial = Data()
    var errors = Data()
    var isOutputAtEnd = false
    var isErrorAtEnd = false
    var status: Int32?
    var waiters: [(isReady: @Sendable (State) -> Bool, continuation: CheckedContinuation<Void, Never>)] = []

    var hasEnded: Bool { status != nil && isOutputAtEnd && isErrorAtEnd }
  }

  private let process = Process()
  private let state = Mutex(State())

  /// `carillon` lies beside the test bundle, whatever the build folder is called.
  static let executable = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().appending(path: "carillon")

  init(_ arguments: [String], input: String = "", directory: URL? = nil) throws {
    let inputPipe = try Self.spawning.withLock { _ in try start(arguments, directory: directory) }
    if !input.isEmpty { try inputPipe.fileHandleForWriting.write(contentsOf: Data(input.utf8)) }
    try inputPipe.fileHandleForWriting.close()
  }

  /// One child is started at a time, and our ends of its pipes are closed in all others: a child that held the end of another one's pipe would keep
  /// the reader waiting for as long as it lives.
  private static let spawning = Mutex(())

  private func start(_ arguments: [String], directory: URL?) throws -> Pipe {
    let (output, errors, inputPipe) = (Pipe(), Pipe(), Pipe())
    for pipe in [output, errors, inputPipe] {
      for handle in [pipe.fileHandleForReading, pipe.fileHandleForWriting] { _ = fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC) }
    }
    process.executableURL = Self.executable
    process.arguments = arguments
    process.standardOutput = output
    process.standardError = errors
    process.standardInput = inputPipe
    if let directory { process.currentDirectoryURL = directory }
    process.terminationHandler = { [weak self] process in self?.change { $0.status = process.terminationStatus } }
    output.fileHandleForReading.readabilityHandler = { [weak self] handle in
      let data = handle.availableData
      if data.isEmpty { handle.readabilityHandler = nil }
      self?.change { Self.received(data, &$0) }
    }
    errors.fileHandleForReading.readabilityHandler = { [weak self] handle in
      let data = handle.availableData
      if data.isEmpty { handle.readabilityHandler = nil }
      self?.change {
        $0.errors.append(data)
        $0.isErrorAtEnd = data.isEmpty
      }
    }
    try process.run()
    return inputPipe
  }

  deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

  /// Runs to the end.
  static func run(_ arguments: [String], input: String = "", directory: URL? = nil) async throws -> Ending {
    try await ChildProcess(arguments, input: input, directory: directory).ending()
  }

  func send(_ signal: Int32) { _ = kill(process.processIdentifier, signal) }

  func ending() async -> Ending {
    await wait { $0.hasEnded }
    return state.withLock { state in
      let output = state.lines.map { $0 + "\n" }.joined() + String(decoding: state.partial, as: UTF8.self)
      return Ending(status: state.status ?? -1, output: output, errors: String(decoding: state.errors, as: UTF8.self))
    }
  }

  /// The line of standard output with this index; nil if the output ends before.
  func line(_ index: Int) async -> String? {
    await wait { $0.lines.count > index || $0.isOutputAtEnd }
    return state.withLock { $0.lines.indices.contains(index) ? $0.lines[index] : nil }
  }

  private static func received(_ data: Data, _ state: inout State) {
    state.isOutputAtEnd = data.isEmpty
    state.partial.append(data)
    while let end = state.partial.firstIndex(of: UInt8(ascii: "\n")) {
      state.lines.append(String(decoding: state.partial[state.partial.startIndex..<end], as: UTF8.self))
      state.partial = Data(state.partial[(end + 1)...])
    }
  }

  private func change(_ body: (inout State) -> Void) {
    let ready = state.withLock { state in
      body(&state)
      let snapshot = state
      let ready = state.waiters.filter { $0.isReady(snapshot) }.map(\.continuation)
      state.waiters.removeAll { $0.isReady(snapshot) }
      return ready
    }
    for continuation in ready { continuation.resume() }
  }

  private func wait(_ isReady: @escaping @Sendable (State) -> Bool) async {
    await withCheckedContinuation { continuation in
      let isThere = state.withLock { state in
        if isReady(state) { return true }
        state.waiters.append((isReady, continuation))
        return false
      }
      if isThere { continuation.resume() }
    }
  }
}

/// A folder of its own for a test, gone afterwards.
final class Workplace: Sendable {
  let url: URL

  init() throws {
    url = FileManager.default.temporaryDirectory.appending(path: "carillon-test-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(at: url) }

  func path(_ name: String) -> String { url.appending(path: name).path(percentEncoded: false) }

  @discardableResult
  func write(_ text: String, to name: String) throws -> String {
    try text.write(toFile: path(name), atomically: false, encoding: .utf8)
    return path(name)
  }

  func read(_ name: String) throws -> String { try String(contentsOfFile: path(name), encoding: .utf8) }
}
