internal import Carillon
internal import Foundation
internal import PushTransport
internal import PushWire
internal import Synchronization

/// `carillon simulate` as a child process on free ports of this machine, with certificates of its
/// own.
///
/// It ends on request and also whenever this process ends, because its standard input is a pipe
/// that only this process holds open.
final class BenchSimulator: Sendable {
  let port: Int
  /// The port of the HTTP/2 provider API; nil: not requested.
  let http2Port: Int?
  let certificates: CertificateMaker.Files

  private let directory: String
  private let identifier: pid_t
  private let input: Int32
  private let output: Int32
  private let isStopped = Atomic(false)

  /// Starts it and waits until it listens.
  ///
  /// - Parameters:
  ///   - executable: The command `carillon`.
  ///   - topics: A client certificate is made for each.
  ///   - servesHTTP2: Whether it also serves HTTP/2, on another port.
  ///   - latency: The round-trip time, in whole milliseconds.
  ///   - certificates: Those of another simulator, which must outlive this one; nil: new ones are
  ///     made.
  init(
    executable: String, topics: [String], servesHTTP2: Bool, latency: Duration = .zero,
    certificates shared: CertificateMaker.Files? = nil
  ) throws(CarillonError) {
    let folder = FileManager.default.temporaryDirectory.appending(
      path: "carillon-bench-\(UUID().uuidString.prefix(8).lowercased())")
    directory = folder.path(percentEncoded: false)
    do {
      try FileManager.default.createDirectory(
        at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    } catch {
      throw CarillonError(.gateway, "no folder can be made for the simulator: \(error.localizedDescription)")
    }
    do throws(CredentialError) {
      certificates =
        if let shared { shared } else {
          try CertificateMaker.makeAll(in: directory, topics: topics, at: Int64(NIOLoop.wallClock))
        }
    } catch {
      try? FileManager.default.removeItem(atPath: folder.path(percentEncoded: false))
      throw CarillonError(.gateway, "no certificates can be made for the simulator: \(error)")
    }
    let server = certificates.server
    let flags =
      [
        "simulate", "--json", "--gateway-port", "0", "--feedback-port", "0", "--until-input-ends", "--session-tickets",
        "--certificate", server.certificate, "--key", server.key ?? "", "--client-ca", certificates.authority,
      ] + (servesHTTP2 ? ["--http2-port", "0"] : [])
      + (latency > .zero ? ["--latency", Quantity.describe(latency)] : [])
    do throws(CarillonError) {
      (identifier, input, output) = try Self.start(executable, flags, errors: directory + "/errors")
    } catch {
      try? FileManager.default.removeItem(atPath: directory)
      throw error
    }
    guard let line = Self.readLine(output), let ready = Self.number("gateway", in: line),
      !servesHTTP2 || Self.number("http2", in: line) != nil
    else {
      let words = (try? String(contentsOfFile: directory + "/errors", encoding: .utf8)) ?? ""
      Self.end(identifier, input: input, output: output)
      try? FileManager.default.removeItem(atPath: directory)
      throw CarillonError(
        .gateway, "the simulator did not start: \(words.trimmingCharacters(in: .whitespacesAndNewlines))")
    }
    port = ready
    http2Port = Self.number("http2", in: line)
  }

  /// Ends it. Returns the number of accepted notifications; nil when it reported none or was
  /// stopped before.
  @discardableResult
  func stop() -> Int? {
    guard !isStopped.exchange(true, ordering: .acquiringAndReleasing) else { return nil }
    kill(identifier, SIGTERM)
    let truth = Self.readLine(output)
    Self.end(identifier, input: input, output: output)
    try? FileManager.default.removeItem(atPath: directory)
    return truth.flatMap(Self.accepted)
  }

  deinit { stop() }

  // MARK: The process

  private static func start(
    _ executable: String, _ arguments: [String], errors: String
  ) throws(CarillonError) -> (pid_t, input: Int32, output: Int32) {
    var (toChild, fromChild): ([Int32], [Int32]) = ([-1, -1], [-1, -1])
    guard unsafe pipe(&toChild) == 0, unsafe pipe(&fromChild) == 0 else {
      throw CarillonError(.gateway, "no pipe to the simulator: \(systemReason)")
    }
    for end in toChild + fromChild { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer {
      close(toChild[0])
      close(fromChild[1])
    }
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    unsafe posix_spawn_file_actions_adddup2(&actions, toChild[0], 0)
    unsafe posix_spawn_file_actions_adddup2(&actions, fromChild[1], 1)
    unsafe posix_spawn_file_actions_addopen(&actions, 2, errors, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    // A process group of its own: the Ctrl-C that stops the benchmark must not end the simulator
    // before the responses have arrived.
    var attributes = posix_spawnattr_t()
    unsafe posix_spawnattr_init(&attributes)
    defer { unsafe posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    unsafe sigemptyset(&none)
    unsafe posix_spawnattr_setsigmask(&attributes, &none)
    unsafe posix_spawnattr_setpgroup(&attributes, 0)
    unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK))
    var words = unsafe (["carillon"] + arguments).map { unsafe strdup($0) } + [nil]
    defer { unsafe words.forEach { unsafe free($0) } }
    var child: pid_t = 0
    let problem = unsafe posix_spawn(&child, executable, &actions, &attributes, &words, environ)
    guard problem == 0 else {
      close(toChild[1])
      close(fromChild[0])
      throw CarillonError(.gateway, "the simulator cannot be started: \(SystemCall.reason(problem))")
    }
    return (child, toChild[1], fromChild[0])
  }

  private static var systemReason: String { SystemCall.reason(errno) }

  /// The next line of its output; nil at the end, or after 30 seconds without one.
  private static func readLine(_ descriptor: Int32) -> String? {
    var line: [UInt8] = []
    var byte: UInt8 = 0
    while line.count < 16 << 20 {
      var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      let ready = unsafe poll(&waiting, 1, 30_000)
      if ready < 0, errno == EINTR { continue }
      guard ready > 0 else { return nil }
      let count = unsafe read(descriptor, &byte, 1)
      if count < 0, errno == EINTR { continue }
      guard count == 1 else { return nil }
      if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
      line.append(byte)
    }
    return nil
  }

  /// Gives it a few seconds to end by itself, then kills it.
  private static func end(_ identifier: pid_t, input: Int32, output: Int32) {
    close(input)
    kill(identifier, SIGTERM)
    var status: Int32 = 0
    for attempt in 0..<1_000 {
      let found = unsafe waitpid(identifier, &status, WNOHANG)
      if found == identifier || (found < 0 && errno != EINTR) { break }
      if attempt == 500 { kill(identifier, SIGKILL) }
      usleep(10_000)
    }
    close(output)
  }

  // MARK: Its output

  private static func number(_ key: String, in line: String) -> Int? {
    object(line)[key] as? Int
  }

  private static func object(_ line: String) -> [String: Any] {
    (try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]) ?? [:]
  }

  private static func accepted(_ line: String) -> Int? {
    let truth = object(line)
    guard let apps = truth["apps"] as? [String: Any] else { return nil }
    // The key is absent when no client used HTTP/2.
    let http2 = truth["http2"] as? [String: Any] ?? [:]
    return (Array(apps.values) + Array(http2.values)).compactMap { ($0 as? [String: Any])?["accepted"] as? Int }.reduce(
      0, +)
  }
}
