internal import PushWire
internal import Testing

@Suite struct ClaimOrderTests {
  @Test(
    "a notification's priority decides about the rank",
    arguments: [(nil, .high), (10, .high), (5, .normal), (1, .low)] as [(UInt8?, ClaimOrder.Rank)])
  func ranks(priority: UInt8?, rank: ClaimOrder.Rank) {
    #expect(ClaimOrder.Rank(priority: priority) == rank)
  }

  @Test("as long as nobody wants room, everybody may claim")
  func calm() {
    let order = ClaimOrder()
    for rank in ClaimOrder.Rank.allCases { #expect(order.permits(rank)) }
  }

  /// Who claims when readers of these ranks always want more.
  private static func claims(_ count: Int, by ranks: [ClaimOrder.Rank]) -> [ClaimOrder.Rank] {
    var order = ClaimOrder()
    for rank in ranks { order.wanted(rank) }
    return (0..<count).compactMap { _ in
      let permitted = ranks.filter { order.permits($0) }
      guard let rank = permitted.first, Set(permitted).count == 1 else { return nil }
      order.claimed(rank)
      return rank
    }
  }

  @Test("the higher rank claims, but every eighth claim is the lower one's")
  func share() {
    let claims = Self.claims(80, by: [.normal, .high])
    #expect(claims.count == 80)
    #expect(claims.filter { $0 == .normal }.count == 10)
    #expect(claims.prefix(7).allSatisfy { $0 == .high })
    #expect(claims[7] == .normal)
  }

  @Test("of three ranks none starves, and the highest gets most")
  func three() {
    let claims = Self.claims(800, by: [.low, .normal, .high])
    #expect(claims.count == 800)
    let (high, normal, low) = (
      claims.count { $0 == .high }, claims.count { $0 == .normal }, claims.count { $0 == .low }
    )
    #expect(high >= 550)
    #expect(normal >= 80)
    #expect(low >= 80)
    for start in stride(from: 0, to: 780, by: 20) {
      #expect(Set(claims[start..<(start + 20)]).count == 3, "from \(start)")
    }
  }

  @Test("who wants no room any more keeps nobody waiting")
  func unwanted() {
    var order = ClaimOrder()
    order.wanted(.high)
    order.wanted(.low)
    for _ in 0..<7 { order.claimed(.high) }
    #expect(order.permits(.low))
    #expect(!order.permits(.high))
    order.unwanted(.low)
    #expect(order.permits(.high))
    order.unwanted(.high)
    #expect(order.permits(.low))
  }
}
