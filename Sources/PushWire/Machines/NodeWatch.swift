/// Which of the processes that share a store are silent.
///
/// Each counts its beats in the store. Whoever watches measures on its own clock how long a count
/// has not changed: no two clocks are compared, and neither is the store's. While the store cannot
/// be read nobody is silent, because nobody could have beaten.
package struct NodeWatch: Sendable {
  /// A sign of life.
  package struct Sign: Hashable, Sendable {
    package let node: String
    /// Another process of the same node has another one.
    package let incarnation: Int64
    package let beat: Int64

    package init(node: String, incarnation: Int64, beat: Int64) {
      (self.node, self.incarnation, self.beat) = (node, incarnation, beat)
    }
  }

  /// Who gives no new sign for so long is silent.
  private let lease: Duration
  private var seen: [String: (sign: Sign, since: Instant)] = [:]
  private var lastLook: Instant?

  /// Between two looks that are further apart, the store may have been away.
  package static let longestPause = Duration.seconds(3)

  package init(lease: Duration) { self.lease = lease }

  /// - Parameter signs: of all others that are alive, as they are in the store now.
  /// - Returns: those who are silent.
  package mutating func note(_ signs: [Sign], at now: Instant) -> [Sign] {
    if let lastLook, now.since(lastLook) > Self.longestPause { seen = [:] }
    lastLook = now
    let known = seen
    seen = [:]
    for sign in signs {
      let since = known[sign.node].flatMap { $0.sign == sign ? $0.since : nil }
      seen[sign.node] = (sign, since ?? now)
    }
    return signs.filter { sign in seen[sign.node].map { now.since($0.since) >= lease } ?? false }
  }
}
