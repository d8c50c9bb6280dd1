internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// Libraries of others, for which a Python is needed that has them: `CARILLON_OLD_CLIENTS` names
/// it.
@Suite(
  "Old libraries through the bridge", .timeLimit(.minutes(20)),
  .enabled(if: ProcessInfo.processInfo.environment["CARILLON_OLD_CLIENTS"] != nil))
struct OldClientTests {
  /// pushjack 1.6.0 sends batches of 100 and looks for an error response after each.
  private static let pushjack = """
    import json, sys
    import pushjack
    port, feedback, pem, count, every = sys.argv[2:7]
    client = pushjack.APNSClient(certificate=pem, default_error_timeout=5, default_expiration_offset=3600)
    client.host = client.feedback_host = "localhost"
    client.port, client.feedback_port = int(port), int(feedback)
    def token(n):
        bad = n % int(every) == int(every) // 2
        return ("bad" if bad else "00a") + "%061x" % n
    response = client.send([token(n) for n in range(int(count))], {"text": "Hello"}, expiration=2000000000)
    reported = [[key, error.code] for key, error in response.token_errors.items()]
    client.close()
    print(json.dumps({"reported": reported, "connections": 0, "written": int(count)}))
    """

  @Test("pushjack 1.6: each good one arrives once, each bad one is reported")
  func pushjack() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [bad0], reason: BadDeviceToken } ], delay: { fixed: 20ms } }")
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let files = try #require(bridge.clients.apps[HTTP2Site.topic])
    let pem =
      try String(contentsOfFile: files.certificate, encoding: .utf8)
      + String(contentsOfFile: try #require(files.key), encoding: .utf8)
    try bridge.site.place.write(pem, to: "both.pem")
    try bridge.site.place.write(Self.pushjack, to: "pushjack_client.py")
    let python = try #require(ProcessInfo.processInfo.environment["CARILLON_OLD_CLIENTS"])
    let (count, every) = (2000, 400)
    let client = try ChildProcess(
      ["\(service.bridge)", "\(service.feedback)", "both.pem", "\(count)", "\(every)"],
      directory: bridge.site.place.url, preparation: "exec \(python) pushjack_client.py")
    let report = try await BridgeClient.report(client)
    let bad = (0..<count).filter { $0 % every == every / 2 }.map { BridgeClient.token($0, isBad: true) }
    #expect(report.reported?.map(\.token).sorted() == bad.sorted(), "\(report)")
    service.process.send(SIGTERM)
    _ = await service.process.ending()
    let arrived = try await bridge.site.taken(upstream).compactMap(\.token)
    #expect(arrived.count == count - bad.count)
    #expect(Set(arrived).count == arrived.count)
  }
}
