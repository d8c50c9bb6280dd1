/// An app's rules for settling and reconnecting, as its lanes apply them.
package struct LanePolicy: Sendable {
  /// How the outcome of the window's last notifications is found.
  package enum Confirm: String, Sendable, CaseIterable, Codable {
    /// With a known-bad probe where the protocol and the gateway allow it, otherwise with the quiet
    /// period. The default.
    case probe
    /// With the quiet period only.
    case quiet
  }

  /// What happens to notifications whose connection ended without an answer about them.
  package enum OnUnknown: String, Sendable, CaseIterable, Codable {
    /// They are resent and counted as possible duplicates. The default.
    case resend
    /// They are not resent, and listed as held until a person decides.
    case hold
    /// They are not resent, and counted as unknown.
    case drop
  }

  package var confirm = Confirm.probe
  /// The quiet period; default 5 s.
  package var quiet = Duration.seconds(5)
  package var onUnknown = OnUnknown.resend
  /// How many connections may end without an answer around one notification before its gateway
  /// counts as unresponsive; default 5.
  package var attempts = 5
  /// False for command 0, whose frames have no identifier, so a refusal and a probe's answer look
  /// the same.
  package var hasIdentifiers = true
  /// The most notifications of one lane that are sent and not settled; default 262,144.
  package var windowCount = 262_144
  /// Blocks in the lane's ring; default 262,144 (16 MiB).
  package var ringBlockCount = 262_144
  /// A connection that has been idle for this long is replaced before its next use; default 3 min.
  /// NATs forget connections after 4 to 6 minutes.
  package var idle = Duration.seconds(180)
  /// A connection whose peer has read nothing for this long is treated as if the peer had closed it
  /// silently; default 2 min.
  package var stall = Duration.seconds(120)
  package var backoffBase = Duration.milliseconds(100)
  package var backoffLimit = Duration.seconds(30)

  /// A known mistake that the simulation must find, which proves that it can. Only tests set it.
  package var plantedMistake: PlantedMistake?

  package enum PlantedMistake: Sendable, CaseIterable {
    /// Status 10 counts as the failure of the notification that it names, as in six older
    /// libraries.
    case shutdownIsRefusal
    /// What follows a refused notification counts as accepted.
    case followersAreForgotten
    /// After a silent close everything is resent as if nothing could have arrived.
    case duplicatesAreNotCounted
    /// A certificate alert counts as proof that nothing was read, however late it comes.
    case lateAlertIsRefusal
    /// A notification whose connection ends twice is rejected, although the gateway closes every
    /// connection.
    case outageIsVerdict
  }

  package init() {}
}

/// What a link's closure says about the notifications in the window.
package enum LaneClosure: Hashable, Sendable {
  /// The gateway refused the certificate. If the connection has not worked before, nothing that was
  /// sent has arrived.
  case nothingWasRead
  /// The connection ended, or never began, without an error response.
  case silent
  /// This side closed it.
  case byUs
}
