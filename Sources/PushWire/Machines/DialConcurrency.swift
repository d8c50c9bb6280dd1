/// How many dials may be under way at a time: more after each that completes, half as many after
/// each that does not.
package struct DialConcurrency: Sendable {
  package private(set) var limit = 16
  package private(set) var underWay = 0

  private static let bounds = 4...256

  package init() {}

  package var isIdle: Bool { underWay == 0 }

  /// Whether one more dial may begin now. If so, it is counted.
  package mutating func begin() -> Bool {
    guard underWay < limit else { return false }
    underWay += 1
    return true
  }

  /// A dial has completed, failed, or taken too long.
  package mutating func ended(isOpen: Bool) {
    underWay = max(0, underWay - 1)
    limit = isOpen ? min(limit + 1, Self.bounds.upperBound) : max(limit / 2, Self.bounds.lowerBound)
  }
}
