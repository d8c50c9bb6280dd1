/// An app's rules for settling and reconnecting, as its lanes apply them.
package struct LanePolicy: Sendable {
  /// How the end of a window is proved.
  package enum Confirm: String, Sendable, CaseIterable {
    /// By a known-bad probe where the protocol and the gateway allow it, else by the quiet period. The default.
    case probe
    /// By the quiet period alone.
    case quiet
  }

  /// What becomes of notifications whose connection ended without a word about them.
  package enum OnUnknown: String, Sendable, CaseIterable {
    /// Sent again; they may arrive twice, and are counted as possible duplicates. The default.
    case resend
    /// Not sent again, and listed as held for a person to decide.
    case hold
    /// Not sent again, and counted as unknown.
    case drop
  }

  package var confirm = Confirm.probe
  /// Default 5 s.
  package var quiet = Duration.seconds(5)
  package var onUnknown = OnUnknown.resend
  /// How many connections may end without a word around one notification before its gateway counts as unresponsive. Default 5.
  package var attempts = 5
  /// False for command 0, whose frames carry no identifier: no probe can be told from a refusal.
  package var hasIdentifiers = true
  /// The most notifications sent and unsettled on one lane. Default 262,144.
  package var windowCount = 262_144
  /// Blocks in the lane's ring. Default 262,144 (16 MiB).
  package var ringBlockCount = 262_144
  /// A connection that carried nothing for so long is replaced before its next use: NATs forget connections after 4 to 6 minutes. Default 3 min.
  package var idle = Duration.seconds(180)
  /// A peer that has not read for so long is given up, as if it had closed without a word. Default 2 min.
  package var stall = Duration.seconds(120)
  package var backoffBase = Duration.milliseconds(100)
  package var backoffLimit = Duration.seconds(30)

  /// A known mistake for the simulation to find, so that we know that it can. Only tests set it.
  package var plantedMistake: PlantedMistake?

  package enum PlantedMistake: Sendable, CaseIterable {
    /// Status 10 counts as the failure of the notification that it names, as in six older libraries.
    case shutdownIsRefusal
    /// What followed a refused notification is believed to have been accepted.
    case followersAreForgotten
    /// After a silent closure everything is sent again as if nothing could have arrived.
    case duplicatesAreNotCounted
    /// An alert about the certificate means that nothing was read, however late it comes.
    case lateAlertIsRefusal
    /// What a connection dies of twice is rejected, although the gateway closes every connection.
    case outageIsVerdict
  }

  package init() {}
}

/// What a link's closure says about the notifications in the window.
package enum LaneClosure: Hashable, Sendable {
  /// The gateway refused our certificate: nothing that was sent has arrived, if the connection has
  /// not worked before.
  case nothingWasRead
  /// The connection ended, or never began, without an error response.
  case silent
  /// We closed it.
  case byUs
}
