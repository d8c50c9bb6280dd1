internal import Foundation

/// Which seeds the simulations try: a range, and all that ever found a mistake.
///
/// `CARILLON_SEED` sets a single seed, `CARILLON_FIRST_SEED` where the range begins,
/// `CARILLON_SEEDS` how many it has.
enum Seeds {
  /// Binary protocol, one life.
  static let campaigns = seeds(
    2000,
    known: [
      // A quiet period for each notification: one connection did not end within four hours, and
      // the pool did not grow, since it did not hear of a shortage that was one long wait.
      2_002_897,
      // The connection of a harmless notification died in the first moment of an outage, just after
      // its control had lived: condemned.
      200_016_483,
    ])

  /// Binary protocol, crashes.
  static let campaignsThroughCrashes = seeds(
    2000,
    known: [
      // As above.
      2_002_897,
      // No mistake of the engine: the journal's driver in the simulation set more and more timers.
      153_248_580,
      // Each checkpoint asked a lane to write again what it had handed over to another lane, and what it
      // wrote led to the next checkpoint.
      60_002_236,
      // No mistake of the engine: bytes that had waited for the gateway to read arrived in another order.
      70_003_327,
      // What had gone to another lane was forgotten, though it lay between two parts that were given back
      // as one range: submitted twice. These two fail in a release build only.
      200_001_356, 200_014_954,
      // As above, a harmless notification at the beginning of an outage.
      200_016_483,
      // Sent again after a silent close before the record of the doubt was durable: after a loss of
      // power nothing showed that there were two copies.
      200_007_245,
    ])

  /// HTTP/2, one life.
  static let providers = seeds(
    500,
    known: [
      // Turned away once before an outage, and answered with 503 in it: both counted as attempts,
      // because others had been answered between the two. Fails in a release build only.
      300_005_696
    ])

  /// HTTP/2, crashes.
  static let providersThroughCrashes = seeds(
    500,
    known: [
      // Cancelled with their attempts used up: given back as if they counted as possible
      // duplicates already, and delivered twice.
      1_001_105, 3_000_889, 3_000_950, 4_001_281,
      // As above, sent again before the record of the doubt was durable.
      200_008_770, 200_016_079,
    ])

  private static func seeds(_ count: Int, known: [UInt64]) -> [UInt64] {
    let environment = ProcessInfo.processInfo.environment
    func number(_ name: String) -> UInt64? { environment[name].flatMap { UInt64($0) } }
    if let one = number("CARILLON_SEED") { return [one] }
    let first = number("CARILLON_FIRST_SEED") ?? 1
    return known + (0..<(number("CARILLON_SEEDS") ?? UInt64(count))).map { first + $0 }
  }
}
