internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// `CARILLON_OLD_CLIENTS` names a folder that has old libraries: a virtual environment, and PyAPNs
/// for Python 2 in `pyapns` with the interpreter `python2`. `ops/test` makes it.
private enum OldClients {
  static let folder = ProcessInfo.processInfo.environment["CARILLON_OLD_CLIENTS"]
  static let hasPython2 = FileManager.default.isExecutableFile(atPath: (folder ?? "") + "/python2")
}

/// Libraries of others through the bridge, over TLS.
@Suite("Old libraries through the bridge", .timeLimit(.minutes(20)), .enabled(if: OldClients.folder != nil))
struct OldClientTests {
  private struct Report: Decodable {
    let reported: [BridgeClient.Report.Refusal]
    let gone: [BridgeClient.Report.Refusal]
  }

  @Test("pushjack 1.6")
  func pushjack() async throws { try await run(OldClientScripts.pushjack, "bin/python") }

  @Test("apns-client 0.2")
  func apnsClient() async throws { try await run(OldClientScripts.apnsClient, "bin/python") }

  @Test("PyAPNs 2.0", .enabled(if: OldClients.hasPython2, "PyAPNs is no Python 3: it needs a Python 2.7"))
  func pyAPNs() async throws { try await run(OldClientScripts.pyAPNs, "python2", path: "pyapns") }

  /// The numbers from 256 to 511.
  private static let gonePrefix = "00a" + String(repeating: "0", count: 58) + "1"

  /// Each good one arrives once, each bad one is reported once, and the feedback service names the
  /// devices that are gone once.
  private func run(_ script: String, _ python: String, path: String = "") async throws {
    let folder = try #require(OldClients.folder)
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(
      rules: """
        http2:
          refuse:
            - { prefixes: [bad0], reason: BadDeviceToken }
            - { prefixes: [\(Self.gonePrefix)], reason: Unregistered, timestamp: 1700000000123 }
          delay: { fixed: 20ms }
        """)
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let key = try await bridge.serve.key()
    let files = try #require(bridge.clients.apps[HTTP2Site.topic])
    let pem =
      try String(contentsOfFile: files.certificate, encoding: .utf8)
      + String(contentsOfFile: try #require(files.key), encoding: .utf8)
    try bridge.site.place.write(pem, to: "both.pem")
    try bridge.site.place.write(script, to: "sender.py")
    let (count, every) = (2000, 400)
    let bad = (0..<count).filter { $0 % every == every / 2 }.map { BridgeClient.token($0, isBad: true) }
    let others = (0..<count).filter { $0 % every != every / 2 }.map { BridgeClient.token($0, isBad: false) }
    let gone = others.filter { $0.hasPrefix(Self.gonePrefix) }
    let client = try ChildProcess(
      ["sender.py", "\(service.bridge)", "\(service.feedback)", "both.pem", "\(count)", "\(every)"],
      program: "\(folder)/\(python)", directory: bridge.site.place.url,
      preparation: "PYTHONPATH='\(folder)/\(path)' exec")
    let good = others.count - gone.count
    try await waitUntil("all are taken in, and the feedback was handed out") {
      if client.hasEnded { return true }
      let counts = try await bridge.counts(service, key: key)
      return counts.forwarded >= count && counts.feedback >= gone.count
    }
    try bridge.site.place.write("", to: "stop")
    let ending = await client.ending()
    let report = try JSONDecoder().decode(Report.self, from: Data(ending.output.utf8), or: ending)
    #expect(report.reported.map(\.token).sorted() == bad.sorted())
    #expect(report.reported.allSatisfy { $0.status == 8 })
    #expect(report.gone.map(\.token).sorted() == gone.sorted())
    #expect(report.gone.allSatisfy { $0.status == 1_700_000_000 })
    service.process.send(SIGTERM)
    let end = await service.process.ending()
    #expect(end.status == 0, "\(end)")
    let arrived = try await bridge.site.taken(upstream).compactMap(\.token)
    #expect(arrived.count == good)
    #expect(Set(arrived).count == good)
  }
}

extension JSONDecoder {
  /// Says what the program has printed if that cannot be read.
  fileprivate func decode<Value: Decodable>(
    _ type: Value.Type, from data: Data, or ending: Ending
  ) throws -> Value {
    do { return try decode(type, from: data) } catch {
      Issue.record("\(ending)")
      throw error
    }
  }
}
