package import PushEngine
package import PushWire

/// A campaign, or a part of one, of a service that keeps a record of its own: the journal knows it
/// by its name, so that the next process finds it again.
package struct ServedCampaign: Sendable {
  package enum Audience: Sendable {
    /// A token file, or some of its rows.
    case file(KeptAudience, selection: @Sendable (AudienceHeader) -> RowSelection? = { _ in nil })
    /// Rows of a token file from a mark on, those that somebody permits. `permit` gets the last
    /// line that was read before; 0: none.
    case rows(KeptAudience, from: AudienceMark, permit: @Sendable (_ line: UInt64) -> any RowPermit)
    /// Another source, which continues behind a line; 0: from its beginning. Also its feed.
    case source(@Sendable (_ line: UInt64) -> (any AudienceSource, feed: (@Sendable () async -> Void)?))
  }

  /// Unique among the campaigns of the deployment.
  package var name: String
  package var notification: PushNotification
  package var audience: Audience
  /// Payloads in other languages, by language in lower case. A file says by its column `language`
  /// who gets which; another source brings them itself.
  package var variants: [String: [UInt8]] = [:]
  /// Its rate, which it may share with other parts; nil: as fast as the app may.
  package var pace: CampaignPace?
  /// The seed of its identifiers, if another node may send some of it, too. Nil: random.
  package var seed: IdentifierSeed?
  /// Another node may send what this one does not.
  package var isShared = false

  package init(name: String, notification: PushNotification, audience: Audience) {
    (self.name, self.notification, self.audience) = (name, notification, audience)
  }
}

/// The events of a service's campaign, from any thread. Every call must return soon.
package struct ServedEvents: Sendable {
  /// Opens the list of what is not accepted, which must be synced before each commit of the
  /// journal, until the campaign ends. Of a list that an earlier process has begun only the rows of
  /// settled lines hold; nil: the campaign begins. Also the seed of the identifiers.
  package var list: @Sendable (_ settled: SettledLines?, IdentifierSeed) throws(CarillonError) -> any OutcomeListener
  /// The journal has the campaign. Nothing of it is sent before this returns; what it throws ends
  /// the campaign here, as if the journal could not be written.
  package var begun: @Sendable () async throws -> Void
  /// A device is gone: its token in hexadecimal digits, and since when in milliseconds since 1970.
  package var gone: @Sendable (_ token: String, _ since: UInt64?) -> Void
  /// The account is final. It must be durable before the journal's next commit.
  package var ended: @Sendable (CampaignAccount) -> Void

  package init(
    list: @escaping @Sendable (SettledLines?, IdentifierSeed) throws(CarillonError) -> any OutcomeListener,
    begun: @escaping @Sendable () async throws -> Void, gone: @escaping @Sendable (String, UInt64?) -> Void,
    ended: @escaping @Sendable (CampaignAccount) -> Void
  ) {
    (self.list, self.begun, self.gone, self.ended) = (list, begun, gone, ended)
  }
}

/// A campaign that an earlier process left in the journal.
package struct ServedRemainder: Sendable {
  package let app: String
  package let name: String
  /// So far.
  package let account: CampaignAccount
}

/// Reports the outcomes of a campaign to the service.
struct ServedListener: OutcomeListener {
  let list: any OutcomeListener
  let goneDevices: Multicast<PushApp.GoneDevice>
  let events: ServedEvents

  var listsResumable: Bool { false }
  var wantsAccepted: Bool { list.wantsAccepted }

  func accepted(_ entries: OutcomeEntries, _ confirmation: Confirmation) { list.accepted(entries, confirmation) }

  func passedOver(line: UInt64, token: String, outcome: Outcome) {
    list.passedOver(line: line, token: token, outcome: outcome)
  }

  func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?, isDoubted: Bool) {
    if outcome.saysGone {
      events.gone(token, goneSince)
      if let gone = PushApp.GoneDevice(token, outcome, goneSince: goneSince) { goneDevices.send(gone) }
    }
    list.notAccepted(line: line, token: token, outcome: outcome, goneSince: goneSince, isDoubted: isDoubted)
  }

  func flush() { list.flush() }

  func ended(_ account: Account) { events.ended(CampaignAccount(account)) }
}
