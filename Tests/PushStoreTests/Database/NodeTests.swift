internal import PushStore
internal import Support
internal import Testing

@testable internal import PushStorePostgreSQL

@Suite("Nodes of a database")
struct NodeTests {
  @Test("one process of a node is alive, until it leaves, is fenced as it was seen, or its own next process joins")
  func oneAlive() async throws {
    let store = try PostgreSQLStore(try PostgreSQLServer.shared.get().makeSettings())
    #expect(try await store.nodes() == [])
    let first = try #require(try await store.join("one", replacing: nil))
    // Another process of the same name, whose journal does not know the first.
    #expect(try await store.join("one", replacing: nil) == nil)
    let other = try #require(try await store.join("two", replacing: first))
    let next = try #require(try await store.join("one", replacing: first))
    #expect(next > other)
    #expect(try await store.beat(of: first, telling: NodeFacts()) == nil)
    let seen = try #require(try await store.nodes()?.first)
    #expect(try await store.beat(of: next, telling: NodeFacts()) != nil)
    // It has given a sign since.
    #expect(try await !store.fence(seen))
    let silent = try #require(try await store.nodes()?.first)
    #expect(silent.beat == seen.beat + 1)
    #expect(try await store.fence(silent))
    #expect(try await store.beat(of: next, telling: NodeFacts()) == nil)
    try await store.leave(other)
    #expect(try await store.join("one", replacing: nil) != nil)
    #expect(try await store.nodes()?.filter(\.isAlive).map(\.name) == ["one"])
    try store.close()
  }

  @Test("of many processes of one node that join at the same time one does, and of many nodes one leads")
  func race() async throws {
    let store = try PostgreSQLStore(try PostgreSQLServer.shared.get().makeSettings())
    let joined = try await withThrowingTaskGroup(of: Int64?.self) { group in
      for _ in 0..<8 { group.addTask { try await store.join("one", replacing: nil) } }
      return try await group.reduce(into: 0) { if $1 != nil { $0 += 1 } }
    }
    #expect(joined == 1)
    let leading = try await withThrowingTaskGroup(of: Bool.self) { group in
      for node in 0..<8 {
        group.addTask { try await store.lead(try await store.join("\(node)", replacing: nil) ?? 0) }
      }
      return try await group.reduce(into: 0) { if $1 { $0 += 1 } }
    }
    #expect(leading == 1)
    try store.close()
  }
}
