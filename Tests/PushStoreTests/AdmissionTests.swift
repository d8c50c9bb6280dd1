internal import PushStore
internal import Support
internal import Testing

@Suite("Caps in the store")
struct AdmissionTests {
  private static func member(_ number: Int) -> [UInt8] { [UInt8](repeating: UInt8(number), count: 16) }

  private static func request(
    _ campaign: UInt64, _ members: [Int], at instant: Int64, caps: [FrequencyCap], app: String = "news"
  ) -> AdmissionRequest {
    AdmissionRequest(
      app: app, campaign: StoredUUID(high: 7, low: campaign), members: members.map(member), caps: caps,
      now: StoreInstant(milliseconds: instant))
  }

  @Test("whoever has got as many campaigns as a cap allows gets no other one", arguments: StoreKind.allCases)
  func caps(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let caps = [FrequencyCap(span: 1_000, count: 2)]
    func refused(_ campaign: UInt64, _ members: [Int], at instant: Int64, app: String = "news") async throws -> [Int] {
      try await store.notAdmitted(Self.request(campaign, members, at: instant, caps: caps, app: app))
        .map { Int($0[0]) }.sorted()
    }
    #expect(try await refused(1, [1, 2], at: 10_000).isEmpty)
    #expect(try await refused(2, [1, 3], at: 10_100).isEmpty)
    var trial = Self.request(3, [1, 2, 3, 4], at: 10_200, caps: caps)
    trial.isTrial = true
    #expect(try await store.notAdmitted(trial) == [Self.member(1)])
    #expect(try await refused(3, [4, 3, 2, 1], at: 10_200) == [1])
    // It has them already.
    #expect(try await refused(1, [1, 2], at: 10_300).isEmpty)
    #expect(try await refused(3, [1, 2], at: 10_300) == [1])
    #expect(try await refused(4, [1, 2, 3], at: 10_999) == [1, 2, 3])
    #expect(try await refused(4, [1, 2, 3], at: 11_000) == [3])
    #expect(try await refused(4, [1, 2, 3], at: 10_999, app: "chat").isEmpty)
    // One that is for everybody counts, too.
    var all = Self.request(5, [2], at: 11_050, caps: caps)
    all.caps = []
    #expect(try await store.notAdmitted(all).isEmpty)
    #expect(try await refused(6, [2], at: 11_250) == [2])
    try await store.forgetAdmissions(of: Self.member(2), app: "news")
    #expect(try await refused(6, [2], at: 11_250).isEmpty)
    // By the day.
    let day: Int64 = 86_400_000
    #expect(try await refused(7, [2], at: day).isEmpty)
    try await store.forgetAdmissions(before: StoreInstant(milliseconds: day))
    #expect(try await refused(8, [3], at: 11_099) == [3])
    try await store.forgetAdmissions(before: StoreInstant(milliseconds: day + 1))
    #expect(try await refused(8, [3], at: 11_099).isEmpty)
    #expect(try await refused(8, [2], at: day).isEmpty)
    #expect(try await refused(9, [2], at: day) == [2])
    try store.close()
  }

  @Test("random campaigns are admitted as a list of all that were given says", arguments: StoreKind.allCases)
  func model(kind: StoreKind) async throws {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    let place = try StorePlace(kind)
    let store = try place.open()
    let caps = [FrequencyCap(span: 1_000, count: 3), FrequencyCap(span: 20_000, count: 9)]
    var given: [Int: [(campaign: UInt64, at: Int64)]] = [:]
    var now: Int64 = 1_000_000
    for step in 0..<120 {
      now += Int64.random(in: 0...400, using: &random)
      let campaign = UInt64.random(in: 0...UInt64(step), using: &random)
      let members = (1...12).filter { _ in Bool.random(using: &random) }
      let isTrial = random.chance(20)
      let expected = members.filter { member in
        let known = given[member, default: []]
        let isFull = caps.contains { cap in known.count { $0.at > now - cap.span } >= cap.count }
        // As many as are kept.
        if known.suffix(9 + 16).contains(where: { $0.campaign == campaign }) { return false }
        if !isFull, !isTrial { given[member, default: []].append((campaign, now)) }
        return isFull
      }
      var request = Self.request(campaign, members, at: now, caps: caps)
      request.isTrial = isTrial
      let refused = try await store.notAdmitted(request)
      #expect(refused == Set(expected.map(Self.member)), "seed \(seed), step \(step)")
    }
    try store.close()
  }

  @Test("campaigns at the same time admit nobody more often than the cap allows", arguments: StoreKind.allCases)
  func together(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let refusedCount = try await withThrowingTaskGroup(of: Int.self) { group in
      for campaign in 1...12 as ClosedRange<UInt64> {
        group.addTask {
          try await store.notAdmitted(
            Self.request(
              campaign, Array(1...40), at: 5_000 + Int64(campaign), caps: [FrequencyCap(span: 60_000, count: 3)])
          ).count
        }
      }
      return try await group.reduce(0, +)
    }
    #expect(refusedCount == 40 * (12 - 3))
    try store.close()
  }
}
