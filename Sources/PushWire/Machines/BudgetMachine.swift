/// One node's share of a rate that several nodes keep together.
///
/// The shares of all nodes are in the store, which never lets their sum exceed the limit. A node
/// uses less before it says so, and more only once the store has said so: whatever is late or lost,
/// all of them together never use more than the limit. A share counts for a while only: a node that
/// hears nothing from the store uses nothing, and others may have its share when that is certain.
/// Whoever had it before may have used all of it in the second before, so more counts a second
/// after the store has said so: the limit holds in any second.
package struct BudgetMachine: Sendable {
  /// What another node has, and what it would use, per second.
  package struct Peer: Hashable, Sendable {
    package let share: Double
    package let demand: Double

    package init(share: Double, demand: Double) { (self.share, self.demand) = (share, demand) }
  }

  /// What a node asks the store for.
  package struct Claim: Hashable, Sendable {
    package let share: Double
    package let demand: Double
  }

  /// For tests.
  package enum PlantedMistake: CaseIterable, Sendable {
    /// The node uses more at once.
    case raisesBeforeTheAnswer
    /// It uses more as soon as the store has answered.
    case raisesAtOnce
    /// What has been given up just before has been used by nobody.
    case forgetsFormerUsers
  }

  /// Per second, of all nodes together.
  package var limit: Double
  /// How long a share counts after the store was asked for it.
  private let validity: Duration
  private let plantedMistake: PlantedMistake?
  private var share = 0.0
  /// Larger shares, the smallest first, and when each counts.
  private var raises: [(share: Double, from: Instant)] = []
  private var validUntil: Instant?
  private var peers: [Peer] = []
  /// The most that was wanted lately, and when.
  private var held = (demand: 0.0, at: Instant.start)

  /// How long a share is kept that is not used: a sender that waits for its work, its journal or
  /// the store for a moment would need another second to have the share back.
  package static let hold = Duration.seconds(1)

  /// The part of the limit that all nodes have alike, so that one that begins to send need not wait
  /// until others use less.
  package static let evenPart = 0.1
  /// More than a second by any node's clock.
  private static let window = Duration.milliseconds(1_050)

  package init(limit: Double, validity: Duration, plantedMistake: PlantedMistake? = nil) {
    (self.limit, self.validity, self.plantedMistake) = (limit, validity, plantedMistake)
  }

  /// What the node may use per second; 0: nothing.
  package func usable(now: Instant) -> Double {
    guard let validUntil, now < validUntil else { return 0 }
    return raises.last { $0.from <= now }?.share ?? share
  }

  /// Whether more will be usable, or is by now.
  package var isRaising: Bool { !raises.isEmpty }

  /// Whether less is wanted than was claimed: a later claim will say so.
  package private(set) var isHolding = false

  /// How long what is usable now may be used.
  package func remaining(now: Instant) -> Duration { validUntil.map { $0 > now ? $0.since(now) : .zero } ?? .zero }

  /// Asks for the share that fits what the nodes would use. What is less counts from now on.
  ///
  /// - Parameter demand: what the node would use per second, by what it has used since the last
  ///   claim.
  package mutating func claim(demand: Double, now: Instant) -> Claim {
    let wanted = min(max(0, demand), limit)
    isHolding = held.demand > wanted && now.since(held.at) < Self.hold
    if !isHolding { held = (wanted, now) }
    let demand = min(held.demand, limit)
    let all = peers.reduce(demand) { $0 + min($1.demand, limit) }
    let count = Double(peers.count + 1)
    let even = limit * Self.evenPart / count
    let rest = limit - limit * Self.evenPart
    let target = even + (all > 0 ? rest * demand / all : rest / count)
    share = plantedMistake == .raisesBeforeTheAnswer ? target : min(share, target)
    raises = raises.map { (min($0.share, target), $0.from) }.filter { $0.share > share }
    return Claim(share: target, demand: demand)
  }

  /// The store has answered a claim.
  ///
  /// - Parameters:
  ///   - share: what the node has now.
  ///   - peers: the other nodes that are alive.
  ///   - isUsed: whether another node has some of the limit, or had some in the last second.
  ///   - asked: when the claim was made.
  ///   - now: when the answer came.
  package mutating func granted(
    _ share: Double, besides peers: [Peer], isUsed: Bool, asked: Instant, now: Instant
  ) {
    let present = usable(now: now)
    let isFirst = validUntil == nil && (plantedMistake == .forgetsFormerUsers ? peers.isEmpty : !isUsed)
    if share <= present || isFirst || plantedMistake == .raisesAtOnce {
      (self.share, raises) = (share, [])
    } else {
      raises.removeAll { $0.from <= now }
      // What is left of it has been this node's since then.
      raises = raises.map { (min($0.share, share), $0.from) }
      if raises.last.map({ $0.share < share }) ?? true { raises.append((share, now + Self.window)) }
      self.share = present
    }
    self.peers = peers
    validUntil = asked + validity
  }
}
