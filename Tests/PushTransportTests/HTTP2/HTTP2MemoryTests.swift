internal import PushWire
internal import Support
internal import Testing

@testable internal import PushGateway
@testable internal import PushTransport

/// Each allocation of nghttp2, the server's, fails in turn.
@Suite struct HTTP2MemoryTests {
  private static let requestCount = 40

  /// - Returns: how often the server has allocated, and what is wrong.
  private static func exchange(
    failingAfter: Int, count: Int
  ) throws -> (allocationCount: Int, problem: String?) {
    let memory = HTTP2ServerMemory()
    memory.failAllocations(after: failingAfter, count: count)
    let pair = try? HTTP2Pair(serverMemory: memory)
    guard var pair else { return (memory.allocationCount, count > 0 ? nil : "no session") }
    pair.settle()
    var submitted: Set<UInt64> = []
    var answered = 0
    for tag in 0..<UInt64(requestCount) {
      if case .submitted = pair.submit(identifier: APNSIdentifier(high: tag, low: 1), tag: tag) {
        submitted.insert(tag)
      }
      if tag % 7 == 0 { pair.settle() }
      for request in pair.requests.dropFirst(answered) {
        let body: [UInt8] = tag % 3 == 0 ? Array(#"{"reason":"BadDeviceToken"}"#.utf8) : []
        pair.server.respond(request.streamID, status: body.isEmpty ? 200 : 400, identifier: [], body: body)
        answered += 1
      }
    }
    pair.settle()
    for request in pair.requests.dropFirst(answered) {
      pair.server.respond(request.streamID, status: 200, identifier: [], body: [])
    }
    pair.settle()
    var ended: [UInt64] = []
    for heard in pair.heard {
      switch heard {
      case .response(let tag, _, _, _), .ended(let tag, _, _): ended.append(tag)
      case .settings, .goAway, .pong: break
      }
    }
    let isBroken = pair.client.failure != nil || pair.server.failure != nil || !pair.client.acceptsRequests
    var problem: String?
    if Set(ended).count != ended.count { problem = "answered twice: \(ended)" }
    if !submitted.isSuperset(of: ended) { problem = "answered and not submitted: \(ended)" }
    if !isBroken, submitted.count < requestCount || ended.count < requestCount {
      problem = "\(submitted.count) submitted, \(ended.count) ended, and the session goes on"
    }
    return (memory.allocationCount, problem)
  }

  @Test(
    "without memory a session fails, or answers everything, once", arguments: [1, Int.max])
  func everyAllocation(count: Int) throws {
    let whole = try Self.exchange(failingAfter: 0, count: 0)
    #expect(whole.problem == nil)
    #expect(whole.allocationCount > 100)
    for failing in 0..<whole.allocationCount {
      let problem = try Self.exchange(failingAfter: failing, count: count).problem
      #expect(problem == nil, "allocation \(failing)")
    }
  }
}
