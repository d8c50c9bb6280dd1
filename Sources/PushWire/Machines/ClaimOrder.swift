/// The order in which an app's readers may claim room in its lanes: by the priority of what they
/// read, without starving the lower ones.
///
/// A reader that finds no room wants some until it has claimed it. As long as a higher one wants
/// room, the lower ones wait; but every eighth claim belongs to a lower one that wants room.
package struct ClaimOrder: Hashable, Sendable {
  /// By the priority of notifications: 10, 5 and 1. Without a priority, 10 counts.
  package enum Rank: Int, Hashable, Sendable, CaseIterable {
    case high = 0
    case normal = 1
    case low = 2

    package init(priority: UInt8?) {
      switch priority ?? 10 {
      case ..<5: self = .low
      case 5..<10: self = .normal
      default: self = .high
      }
    }
  }

  /// Readers of this rank that want room.
  private var wantingCounts = [Int](repeating: 0, count: Rank.allCases.count)
  /// Claims by higher ranks while a reader of this rank wanted room.
  private var passedCounts = [Int](repeating: 0, count: Rank.allCases.count)

  /// After this many claims by higher ranks, a rank has its turn.
  private static let passedLimit = 7

  package init() {}

  /// A reader has found no room. It wants some until ``unwanted(_:)``.
  package mutating func wanted(_ rank: Rank) { wantingCounts[rank.rawValue] += 1 }

  package mutating func unwanted(_ rank: Rank) {
    wantingCounts[rank.rawValue] -= 1
    if wantingCounts[rank.rawValue] == 0 { passedCounts[rank.rawValue] = 0 }
  }

  /// Whether a reader of this rank may claim room now.
  package func permits(_ rank: Rank) -> Bool {
    if let due { return due == rank }
    return wantingCounts[..<rank.rawValue].allSatisfy { $0 == 0 }
  }

  /// The rank that has waited too long. If there are several, the one that has waited longest.
  private var due: Rank? {
    var due: Rank?
    for rank in Rank.allCases where wantingCounts[rank.rawValue] > 0 {
      let passed = passedCounts[rank.rawValue]
      if passed >= Self.passedLimit, passed > (due.map { passedCounts[$0.rawValue] } ?? 0) { due = rank }
    }
    return due
  }

  /// A reader of this rank has claimed room.
  package mutating func claimed(_ rank: Rank) {
    passedCounts[rank.rawValue] = 0
    for lower in Rank.allCases where lower.rawValue > rank.rawValue && wantingCounts[lower.rawValue] > 0 {
      passedCounts[lower.rawValue] += 1
    }
  }
}
