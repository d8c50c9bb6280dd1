internal import Foundation
internal import NIOCore
internal import NIOPosix
internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// Campaigns to an HTTP/2 server from outside this project: nghttpd, which sends every body back.
@Suite(.serialized, .timeLimit(.minutes(20))) struct NghttpdTests {
  @Test("a campaign through nghttpd is accepted to the last notification, at any stream limit", arguments: [1, 7, 100])
  func accepted(streamLimit: Int) async throws {
    let place = try NghttpdPlace()
    defer { place.remove() }
    let server = try await place.start(streamLimit: streamLimit)
    var campaign = HTTP2EndToEnd(tokenCount: streamLimit == 1 ? 500 : 5_000, seed: 1)
    campaign.configuration.connections = 3...3
    let listener = GoneBook()
    let result = try await campaign.send(through: try place.dialer(), source: nil, listener: listener)
    #expect(result.account.confirmed == campaign.tokens.count, "\(result.account)")
    #expect(result.account.possibleDuplicates == 0, "\(result.account)")
    #expect(result.account.resent == 0, "\(result.account)")
    #expect(result.failure == nil)
    #expect(listener.collector.outcomes.isEmpty)
    server.send(SIGKILL)
  }

  @Test("after a kill of nghttpd another one continues: all are accepted, and those in flight are possible duplicates")
  func killed() async throws {
    let place = try NghttpdPlace()
    defer { place.remove() }
    let first = try await place.start(streamLimit: 10)
    let campaign = {
      var campaign = HTTP2EndToEnd(tokenCount: 4_000, seed: 2)
      campaign.configuration.connections = 2...2
      campaign.configuration.rateLimit = 4_000
      return campaign
    }()
    let listener = AcceptedCounter()
    async let sending = Self.send(campaign, through: try place.dialer(), listener)
    await listener.reached(1_000)
    first.send(SIGKILL)
    _ = await first.ending()
    let second = try await place.start(streamLimit: 10)
    let result = try await sending
    #expect(result.account.confirmed == campaign.tokens.count, "\(result.account), \(result.failure ?? "")")
    #expect(result.failure == nil, "\(result.account), \(result.failure ?? "")")
    #expect(result.account.possibleDuplicates <= 2 * 10, "\(result.account)")
    #expect(result.account.resent >= result.account.possibleDuplicates, "\(result.account)")
    second.send(SIGKILL)
  }
}

extension NghttpdTests {
  private static func send(
    _ campaign: HTTP2EndToEnd, through dialer: SocketDialer, _ listener: AcceptedCounter
  ) async throws -> (account: Account, failure: String?) {
    defer { listener.finish() }
    return try await campaign.send(through: dialer, source: nil, listener: listener)
  }
}

/// Counts accepted notifications, so that a test can wait for a number of them.
private final class AcceptedCounter: OutcomeListener {
  let wantsAccepted = true
  private let counts: AsyncStream<Int>
  private let continuation: AsyncStream<Int>.Continuation

  init() {
    (counts, continuation) = AsyncStream.makeStream(of: Int.self)
  }

  func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?, isDoubted: Bool) {}

  func accepted(_ entries: OutcomeEntries, _ confirmation: PushWire.Confirmation) {
    continuation.yield(entries.count)
  }

  /// The campaign has ended.
  func finish() { continuation.finish() }

  /// Returns when this many were accepted, or when the campaign has ended.
  func reached(_ count: Int) async {
    var sum = 0
    for await accepted in counts {
      sum += accepted
      if sum >= count { return }
    }
  }
}

/// A folder with certificates, and a port.
struct NghttpdPlace {
  private let directory: URL
  private let certificates: CertificateMaker.Files
  private let port: Int

  init() throws {
    directory = FileManager.default.temporaryDirectory.appending(path: "carillon-nghttpd-\(UUID().uuidString)")
    let folder = directory.path(percentEncoded: false)
    certificates = try CertificateMaker.makeAll(
      in: folder, topics: [HTTP2EndToEnd.topic], at: Int64(Date().timeIntervalSince1970))
    // nghttpd cannot choose a free port by itself.
    let probe = try ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).bind(host: "127.0.0.1", port: 0)
      .wait()
    port = probe.localAddress?.port ?? 0
    try probe.close().wait()
  }

  func remove() { try? FileManager.default.removeItem(at: directory) }

  func dialer() throws -> SocketDialer {
    var client = TLSClientConfiguration(credential: nil, trust: .file(certificates.authority))
    client.applicationProtocols = [ApplicationProtocol.http2]
    return SocketDialer(host: "127.0.0.1", port: port, context: try TLSContext(client: client))
  }

  /// Starts nghttpd, and returns when it accepts connections. Waits for at most 10 s.
  func start(streamLimit: Int) async throws -> ChildProcess {
    let path = try #require(
      ["/usr/bin/nghttpd", "/usr/sbin/nghttpd", "/usr/local/bin/nghttpd"].first {
        FileManager.default.isExecutableFile(atPath: $0)
      },
      "ops/test installs nghttp2-server")
    let process = try ChildProcess(
      [
        "-a", "127.0.0.1", "--echo-upload", "-m", "\(streamLimit)", "-d", directory.path(percentEncoded: false),
        "\(port)", certificates.server.key ?? "", certificates.server.certificate,
      ], program: path, redirection: ">/dev/null 2>&1")
    for _ in 0..<2_000 where !process.hasEnded {
      if let channel = try? await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connect(
        host: "127.0.0.1", port: port
      ).get() {
        try? await channel.close()
        return process
      }
      try await Task.sleep(for: .milliseconds(5))
    }
    throw NotStarted()
  }

  struct NotStarted: Error {}
}
