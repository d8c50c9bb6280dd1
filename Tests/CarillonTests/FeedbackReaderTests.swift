internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import Carillon

/// How the feedback reader treats the end of the list.
struct FeedbackReaderTests {
  private let place: Workplace
  private let endpoint = Endpoint(host: "localhost", port: 2196)

  init() throws { place = try Workplace() }

  /// A service whose connections all behave in the same way.
  private struct Service: Dialer {
    let pieces: [[UInt8]]
    let closure: LinkClosure

    func dial(on loop: any Loop, delegate: any LinkDelegate) -> any Link {
      let link = DeadLink()
      loop.execute {
        delegate.linkOpened(link)
        for piece in pieces { unsafe piece.withUnsafeBytes { unsafe delegate.link(link, received: $0) } }
        delegate.linkClosed(link, reason: closure)
      }
      return link
    }
  }

  private final class DeadLink: Link {
    func send(_ bytes: UnsafeRawBufferPointer) {}
    func close() {}
    let isWritable = true
    let isIdle = true
    let handedOverByteCount: UInt64 = 0
    let unacknowledgedByteCount = 0
  }

  private final class PausableLink: Link {
    private let reads = Atomic(true)
    var isReading: Bool { reads.load(ordering: .relaxed) }
    func setReading(_ reads: Bool) { self.reads.store(reads, ordering: .relaxed) }
    func send(_ bytes: UnsafeRawBufferPointer) {}
    func close() {}
    let isWritable = true
    let isIdle = true
    let handedOverByteCount: UInt64 = 0
    let unacknowledgedByteCount = 0
  }

  private struct OneLink: Dialer {
    let link: PausableLink
    func dial(on loop: any Loop, delegate: any LinkDelegate) -> any Link { link }
  }

  private final class LimitedOutput: FeedbackOutput {
    let full = Atomic(false)
    var isFull: Bool { full.load(ordering: .relaxed) }
    func write(_ tuple: FeedbackTuple) -> String? { nil }
    func synchronise() -> String? { nil }
  }

  private func read(
    _ pieces: [[UInt8]], _ closure: LinkClosure
  ) async throws -> (count: Int?, failure: CarillonError?, rows: String) {
    let file = place.path("gone.csv")
    let output = try FeedbackFile(path: file, json: false)
    do {
      let service = Service(pieces: pieces, closure: closure)
      let count = try await FeedbackReader(dialer: service, endpoint: endpoint, output: output).run { _ in }
      return (count, nil, try place.read("gone.csv"))
    } catch let failure as CarillonError {
      return (nil, failure, try place.read("gone.csv"))
    }
  }

  private static let tuple: [UInt8] = [0, 0, 0, 7, 0, 2, 0xAB, 0xCD]

  @Test(
    "a list with close_notify is complete; one without is written and reported as cut"
  )
  func truncation() async throws {
    let whole = try await read([Self.tuple], .byPeer)
    #expect(whole.count == 1)
    #expect(whole.rows == "timestamp,token\n7,abcd\n")

    let cut = try await read([Self.tuple, Array(Self.tuple.prefix(5))], .truncated)
    #expect(cut.rows == "timestamp,token\n7,abcd\n7,abcd\n")
    #expect(cut.failure?.code == .incomplete)
    #expect(
      cut.failure?.message
        == "localhost:2196 ended the connection without closing TLS after 1 entry, which is written; "
        + "the list may have been cut off, so read it again."
    )

    let empty = try await read([], .truncated)
    #expect(
      empty.failure?.message
        == "localhost:2196 ended the connection without closing TLS; the list may have been cut off, so read it again.")
  }

  @Test("reading resumes, also if entries were delivered after it was paused")
  func lateEntries() {
    let (loop, link, output) = (SimulatedLoop(seed: 1), PausableLink(), LimitedOutput())
    let reader = FeedbackReader(dialer: OneLink(link: link), endpoint: endpoint, output: output)
    reader.start(on: loop) { _ in }
    reader.linkOpened(link)
    output.full.store(true, ordering: .relaxed)
    unsafe Self.tuple.withUnsafeBytes { unsafe reader.link(link, received: $0) }
    #expect(!link.isReading)
    // The output has room, and then gets what was decrypted before the pause.
    output.full.store(false, ordering: .relaxed)
    unsafe Self.tuple.withUnsafeBytes { unsafe reader.link(link, received: $0) }
    reader.resume()
    _ = loop.run(limit: .seconds(1), stepLimit: 100) { link.isReading }
    #expect(link.isReading)
  }

  @Test("only its owner can read the file with the tokens")
  func mode() async throws {
    _ = try await read([Self.tuple], .byPeer)
    let attributes = try FileManager.default.attributesOfItem(atPath: place.path("gone.csv"))
    #expect(attributes[.posixPermissions] as? Int == 0o600)
  }
}
