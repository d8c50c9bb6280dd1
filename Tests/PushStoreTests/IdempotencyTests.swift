internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

@Suite("Idempotency in the store")
struct IdempotencyTests {
  private struct Row {
    var digest: [UInt8]
    var begunAt: Int64
    var answer: StoredAnswer?
  }

  @Test("requests begin, end and are forgotten as in a simple model", arguments: StoreKind.with(0..<20))
  func model(seed: UInt64, kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    var store = try place.open()
    var random = SeededGenerator(seed: seed)
    var rows: [String: Row] = [:]
    var now: Int64 = 1_000
    for _ in 0..<200 {
      now += Int64.random(in: 0...50, using: &random)
      let caller = random.chance(70) ? "a" : "b"
      let key = "\(Int.random(in: 0..<6, using: &random))"
      let name = "\(caller) \(key)"
      let request = IdempotentRequest(
        caller: caller, key: key, digest: [random.chance(80) ? 1 : 2], begunAt: StoreInstant(milliseconds: now))
      switch Int.random(in: 0..<100, using: &random) {
      case ..<55:
        let oldest = now - 500
        let expected: IdempotentBeginning =
          switch rows[name] {
          case nil: .new
          case let row? where row.begunAt < oldest: .new
          case let row? where row.digest != request.digest: .different
          case let row?: row.answer.map(IdempotentBeginning.answered) ?? .begun
          }
        let found = try await store.begin(request, oldest: StoreInstant(milliseconds: oldest))
        #expect(found == expected, "seed \(seed)")
        if expected == .new { rows[name] = Row(digest: request.digest, begunAt: now) }
      case ..<75:
        let answer = StoredAnswer(
          status: 202, headers: random.chance(50) ? ["content-type": "application/json", "etag": "\"1\""] : [:],
          body: random.bytes(20))
        try await store.finish(request, answer)
        rows[name]?.answer = answer
      case ..<85:
        try await store.withdraw(request)
        rows[name] = nil
      case ..<95:
        try await store.forgetRequests(begunBefore: StoreInstant(milliseconds: now - 300))
        rows = rows.filter { $0.value.begunAt >= now - 300 }
      default:
        try store.close()
        store = try place.open()
      }
    }
    try store.close()
  }

  @Test("of many that begin at once with one key, one is new", arguments: StoreKind.allCases)
  func concurrent(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    for round in 0..<20 {
      let found = try await withThrowingTaskGroup(of: IdempotentBeginning.self) { group in
        for _ in 0..<16 {
          group.addTask {
            try await store.begin(
              IdempotentRequest(caller: "a", key: "\(round)", digest: [1], begunAt: StoreInstant(milliseconds: 9)),
              oldest: StoreInstant(milliseconds: 0))
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(found.filter { $0 == .new }.count == 1)
      #expect(found.filter { $0 == .begun }.count == 15)
    }
    try store.close()
  }

  @Test("a request whose holder lives runs elsewhere; whoever has lost the answer begins", arguments: LedgerTests.kinds)
  func holders(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func request(_ holder: Int64) -> IdempotentRequest {
      IdempotentRequest(
        caller: "a", key: "k", digest: [1], begunAt: StoreInstant(milliseconds: 9), holder: holder)
    }
    func begin(_ request: IdempotentRequest) async throws -> IdempotentBeginning {
      try await store.begin(request, oldest: StoreInstant(milliseconds: 0))
    }
    let holder = try #require(try await store.join("n1", replacing: nil))
    let other = try #require(try await store.join("n2", replacing: nil))
    let first = request(holder)
    #expect(try await begin(first) == .new)
    #expect(try await begin(first) == .new)
    #expect(try await begin(request(holder)) == .begun)
    #expect(try await begin(request(other)) == .begunElsewhere)
    try await store.leave(holder)
    #expect(try await begin(request(other)) == .begun)
    let answer = StoredAnswer(status: 202, headers: [:], body: [])
    try await store.finish(first, answer)
    #expect(try await begin(first) == .answered(answer))
    try store.close()
  }
}
