internal import Foundation

/// The seeds of the simulations: a range, and every seed that ever found a mistake.
///
/// `CARILLON_SEED` sets a single seed, `CARILLON_FIRST_SEED` the start of the range,
/// `CARILLON_SEEDS` its length.
enum Seeds {
  /// What takes minutes runs, too: `CARILLON_EVERY_FAULT` is set.
  static var areAllFaults: Bool { ProcessInfo.processInfo.environment["CARILLON_EVERY_FAULT"] != nil }

  /// Binary protocol, one process.
  static let campaigns = seeds(
    1000,
    known: [
      // With a quiet period for each notification, one connection did not end within four hours.
      // The pool did not grow, because one long wait did not count as a shortage.
      2_002_897,
      // At the beginning of an outage, the connection of a harmless notification closed just after
      // its control had succeeded. The notification was treated as poison.
      200_016_483,
    ])

  /// Binary protocol, crashes.
  static let campaignsThroughCrashes = seeds(
    1000,
    known: [
      // As above.
      2_002_897,
      // A mistake of the simulation: the journal's driver set more and more timers.
      153_248_580,
      // Each checkpoint asked a lane to compact notifications that had moved to another lane. The
      // records of that led to the next checkpoint.
      60_002_236,
      // A mistake of the simulation: bytes that waited for the gateway to read arrived in another
      // order.
      70_003_327,
      // Notifications that had moved to another lane were forgotten when they lay between two parts
      // that were returned as one range. So they were submitted twice. These two fail in a release
      // build only.
      200_001_356, 200_014_954,
      // As above, a harmless notification at the beginning of an outage.
      200_016_483,
      // Resent after a silent close before the record of the doubt was durable. After a loss of
      // power nothing showed that there were two copies.
      200_007_245,
    ])

  /// HTTP/2, one process.
  static let providers = seeds(
    500,
    known: [
      // Refused once before an outage and answered with 503 in it. Both counted as attempts,
      // because others had been answered in between. Fails in a release build only.
      300_005_696
    ])

  /// HTTP/2, crashes.
  static let providersThroughCrashes = seeds(
    500,
    known: [
      // Cancelled with all attempts used: returned as if they already counted as possible
      // duplicates, and delivered twice.
      1_001_105, 3_000_889, 3_000_950, 4_001_281,
      // As above, resent before the record of the doubt was durable.
      200_008_770, 200_016_079,
      // As with 60_002_236: a lane asked at each checkpoint wrote its records again, without end,
      // because one that it could not write stayed behind.
      110_436_596,
    ])

  /// An app that takes in while its gateway is away, crashes.
  static let intakes = seeds(
    300,
    known: [
      // A reservoir that was empty at a checkpoint was forgotten, and with it that a lane had taken
      // its notifications. When it was used again and its first records were still there, these
      // were sent twice after a crash.
      500_000_128
    ])

  /// Two nodes take in for each other.
  static let sharedIntakes = seeds(300, known: [])

  /// A service's campaigns, crashes.
  static let servedCampaigns = seeds(
    300,
    known: [
      // One failure of the store while a part began, and the campaign waited for the next process.
      12, 15,
      // Cancelled while it was divided: the parts that were cut by then were taken for all.
      88, 150,
      // Paused before its devices were fixed: it was sent to nobody, and finished.
      169,
      // All devices were left out, or there were none: the campaign failed.
      771,
      // The store had a change and reported a failure: no driver knew of it.
      821,
      // Quiet hours began between two looks at the clock: it was sent in them for up to a minute.
      622,
      // The store was away when quiet hours began, or while a part began: it was sent in them.
      49, 2_380,
      // A local send began to cut its audience anew after each call with which the store was away.
      831_546_851,
      // What a killed process left was sent at once, whatever the campaign's rate.
      990_019_682,
      // A mistake of the simulation: cancelled as a draft, so that it has no audience.
      83,
    ])

  /// Campaigns that two nodes share, crashes.
  static let sharedCampaigns = seeds(
    100,
    known: [
      // A segment that was taken over, or continued, was granted nothing more.
      148,
      // A process sent again what its journal had in doubt, and was killed before the ledger knew.
      9_300_613,
      // Quiet hours began while the store was away, so that nodes did not hear of it.
      49, 263,
      // A local send began to cut its audience anew after each call that failed.
      363_823_498,
      // A mistake of the simulation: probes of the binary protocol counted against the rate.
      363_825_564,
    ])

  /// Campaigns that several nodes send at the same time.
  static let clusters = seeds(
    60,
    known: [
      // A node that needed a rate no longer kept its share of it.
      26, 27,
      // The ledger knew of somebody who was passed over, and the journal did not yet.
      910_110,
      // After a restart, those who were passed over counted as such, and an earlier owner may have
      // sent to them.
      88_000_239,
      // A former leader that was stopped closed a part when it went on, and the leader did not
      // look.
      413_000_594,
      // A mistake of the simulation: an answer took a second, and what had been read meanwhile left
      // at once.
      412_000_227,
      // An upload that was paused before any of it was cut, and then cancelled, never ended.
      800_000_363,
      // A node asked the ledger what it owns. A segment ended before the answer came, and was sent
      // again as if the node had just come back: its account was replaced.
      102_842_797,
      // After a restart, those who are sent to in no case, and may have got it from an earlier
      // owner, counted as held. They are unknown.
      954_024_183,
      // The journal covered those who were passed over in doubt before the list had them: after a
      // kill nothing listed them.
      269_533_690,
    ])

  /// HTTP/2 with one lasting fault.
  static let liveness = seeds(100, known: [])

  /// Old providers through the bridge, crashes.
  static let bridges = seeds(
    110,
    known: [
      // Killed twice before the client came back: the life of the second process counted for the
      // connections of the first, and what came again was sent twice.
      189, 2_160,
      // Frames of one read went to two runs, so that the first one was not written first. After a
      // kill those before it were forgotten.
      2_787,
      // A process that was ended took 12 minutes for its last outcomes. What had its outcome before
      // was too old then, although nobody could have sent it again, and was sent twice.
      766_673_791,
      // The end of a connection waited for the journal, which had nothing to write, for longer than
      // a sign of life.
      5_826,
      // Mistakes of the simulation: a client that was too honest, a recovery done twice, and a copy
      // on purpose after the bridge had closed a connection.
      5_603, 5_924, 30_204,
      // The same: a client that lost an error response sent nothing of what the bridge had said
      // that it discarded, or did not know that it had read one too late.
      9_000_072, 9_000_106, 9_000_331, 9_000_337, 9_000_343, 9_002_222,
      // The journal waited for a store that was away: frames that the bridge had taken were lost
      // with the power.
      992_799_409,
    ])

  /// The same on two nodes that take over from each other.
  static let sharedBridges = seeds(
    50,
    known: [
      // The store had a block whose run it did not know: the process was killed in between.
      1_700,
      // What was deferred while the store was away had frames of the bridge, and not their blocks.
      32, 59,
    ])

  private static func seeds(_ count: Int, known: [UInt64]) -> [UInt64] {
    let environment = ProcessInfo.processInfo.environment
    func number(_ name: String) -> UInt64? { environment[name].flatMap { UInt64($0) } }
    if let one = number("CARILLON_SEED") { return [one] }
    let first = number("CARILLON_FIRST_SEED") ?? 1
    return known + (0..<(number("CARILLON_SEEDS") ?? UInt64(count))).map { first + $0 }
  }
}
