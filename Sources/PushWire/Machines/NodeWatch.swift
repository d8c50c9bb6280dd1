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
    /// Without a new sign for so long it is silent. It says so itself, because it relies on having
    /// that time.
    package let lease: Duration

    package init(node: String, incarnation: Int64, beat: Int64, lease: Duration) {
      (self.node, self.incarnation, self.beat, self.lease) = (node, incarnation, beat, lease)
    }
  }

  /// Between two looks that are further apart, the store may have been away.
  private let longestPause: Duration
  private var seen: [String: (sign: Sign, since: Instant)] = [:]
  private var lastLook: Instant?

  package init(longestPause: Duration) { self.longestPause = longestPause }

  /// - Parameter signs: of all others that are alive, as they are in the store now.
  /// - Returns: those who are silent.
  package mutating func note(_ signs: [Sign], at now: Instant) -> [Sign] {
    if let lastLook, now.since(lastLook) > longestPause { seen = [:] }
    lastLook = now
    let known = seen
    seen = [:]
    for sign in signs {
      let since = known[sign.node].flatMap { $0.sign == sign ? $0.since : nil }
      seen[sign.node] = (sign, since ?? now)
    }
    return signs.filter { sign in seen[sign.node].map { now.since($0.since) >= sign.lease } ?? false }
  }
}
