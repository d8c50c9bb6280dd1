internal import Foundation
internal import PushEngine
internal import PushStore
internal import Support
internal import Testing

@testable internal import PushService

@Suite("Uploaded audiences as files of several nodes")
struct AudienceFilesTests {
  private let place: Workplace
  private let disk = StoreDisk()
  private let campaign = StoredUUID.make(at: StoreInstant(milliseconds: 1_800_000_000_000))

  init() async throws {
    place = try Workplace()
    let record = StoredCampaign(
      id: campaign, app: "news", state: CampaignState.uploading.rawValue, content: Array("{}".utf8),
      createdAt: StoreInstant(milliseconds: 1))
    _ = try await SimulatedStore(disk, hasLedger: true).add(record, openLimit: 9)
  }

  /// One of the nodes.
  private func node(_ name: String) -> (files: AudienceFiles, controller: CampaignController) {
    let store = SimulatedStore(disk, hasLedger: true, node: name)
    let spool = CampaignSpool(besides: place.path(name))
    return (AudienceFiles(spool: spool, store: store, clock: MachineClock()), CampaignController(store: store))
  }

  private func text(_ files: AudienceFiles) throws -> String {
    try String(contentsOfFile: files.spool.audience(campaign), encoding: .utf8)
  }

  /// A node takes in bytes behind some that are there.
  private func add(
    _ text: String, at start: Int64, _ node: (files: AudienceFiles, controller: CampaignController)
  ) async throws {
    let (files, controller) = node
    let path = files.spool.audience(campaign)
    try files.spool.make(campaign)
    if start > 0 { try await files.fetch(try await head(controller)) }
    let kept = ((try? Data(contentsOf: URL(fileURLWithPath: path))) ?? Data()).prefix(Int(start))
    try (kept + Data(text.utf8)).write(to: URL(fileURLWithPath: path))
    let end = start + Int64(text.utf8.count)
    let pieces = try files.pieces(of: campaign, from: start, to: end)
    try await controller.change(
      campaign, { _ in .uploadEnded(isComplete: false) }, { $0.upload.byteCount = end }, adding: pieces)
    try files.added(pieces, to: campaign)
  }

  private func head(_ controller: CampaignController) async throws -> CampaignHead {
    try #require(try await controller.store.campaignHead(campaign))
  }

  @Test("a node fetches what another one has taken in, only what it lacks, and what was replaced")
  func fetched() async throws {
    let (here, there) = (node("here"), node("there"))
    try await add("one,", at: 0, here)
    try await there.files.fetch(try await head(there.controller))
    #expect(try text(there.files) == "one,")
    try await add("two,", at: 4, there)
    // What is there already is not fetched again.
    let path = there.files.spool.audience(campaign)
    try Data("ONE,two,".utf8).write(to: URL(fileURLWithPath: path))
    try await add("three", at: 8, here)
    try await here.files.fetch(try await head(here.controller))
    try await there.files.fetch(try await head(there.controller))
    #expect(try text(there.files) == "ONE,two,three")
    #expect(try text(here.files) == "one,two,three")
    // All anew, and as long as before.
    try await add("another upload", at: 0, here)
    try await there.files.fetch(try await head(there.controller))
    #expect(try text(there.files) == "another upload")
    // A file that is gone, or cut.
    try FileManager.default.removeItem(atPath: path)
    try await there.files.fetch(try await head(there.controller))
    #expect(try text(there.files) == "another upload")
    try Data("another".utf8).write(to: URL(fileURLWithPath: path))
    try await there.files.fetch(try await head(there.controller))
    #expect(try text(there.files) == "another upload")
  }

  @Test("what only one machine has comes into the store; without it the upload has to be made again")
  func alone() async throws {
    let (here, there) = (node("here"), node("there"))
    try await add("one", at: 0, here)
    // As an older version left it.
    disk.change { $0.uploads = [:] }
    await #expect(throws: Problem.self) { try await there.files.fetch(try await head(there.controller)) }
    let again = node("here")
    try await again.files.fetch(try await head(again.controller))
    try await there.files.fetch(try await head(there.controller))
    #expect(try text(there.files) == "one")
  }

  @Test("a file can be read from any row on")
  func marks() async throws {
    let (here, _) = (node("here"), 0)
    let rows = (0..<5_000).map { index in
      let token = String(repeating: "0", count: 56) + String(format: "%08x", index)
      return index % 3 == 0 ? "\(token),\"a\nb\"\n" : "\(token),a\n"
    }
    try await add("token,name\n" + rows.joined(), at: 0, here)
    let record = try #require(try await here.controller.store.campaign(campaign))
    for line in [1, 2, 3, 1_500, 6_000, 6_001, 4_000, 7_000] as [Int64] {
      let (file, mark) = try await here.files.rows(record, at: line)
      #expect(mark.line <= line || line == 1)
      #expect(line - Int64(mark.line) < 3_000)
      let bytes = try Data(contentsOf: URL(fileURLWithPath: file.path)).prefix(Int(mark.offset))
      #expect(bytes.count { $0 == UInt8(ascii: "\n") } + 1 == mark.line)
    }
  }
}
