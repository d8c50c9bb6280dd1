internal import Foundation
internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// A notification as one app sends it: checked, with every default filled in.
///
/// A class, because many devices get the same one: each then has a reference to it.
package final class PreparedNotification: Sendable {
  /// What notifications have in common that can share a campaign of the engine.
  struct Group: Hashable, Sendable {
    /// Nil over the binary protocol.
    var headers: ProviderHeaders?
    /// Nil for almost all: each has its own, so that a time that differs each second, such as an
    /// hour from now, needs no campaign of its own. Beside a long collapse identifier there is no
    /// room for it.
    var expiration: UInt32?
    var priority: UInt8?
    /// Nil for almost all: each brings its own. See ``PreparedNotification/group(with:)``.
    var payload: [UInt8]?
    /// The bridge has taken them in.
    var isBridge = false
    /// Other nodes can take them over.
    var isShared = false

    /// To which they are broadcasts; nil: they are to devices.
    var channel: String? { headers?.channelIdentifier }
  }

  package let payload: [UInt8]
  let group: Group
  let collapseID: String?
  let identifier: APNSIdentifier?
  /// In seconds since 1970; nil if it has none, or if it is the group's.
  let expiration: UInt32?
  /// What may not be meant, such as a key that has no effect: sentences with their place.
  package let warnings: [String]
  private let deviceCount = Atomic<Int>(0)

  /// With so many devices, a notification is worth a campaign of the engine.
  static let sharedDeviceCount = 1024

  /// - Parameters:
  ///   - payload: what is checked: of a template, a sample.
  ///   - now: seconds since 1970.
  /// - Throws: ``CarillonError/ErrorCode/payload`` for what the gateway would refuse.
  init(
    _ notification: PushNotification, payload: [UInt8], app: AppConfiguration, kind: ProviderCredentialKind, now: UInt32
  ) throws(CarillonError) {
    self.payload = payload
    let seconds = notification.expiration?.sharedUnixSeconds(now: now)
    let headers = Self.headers(notification, app: app, kind: kind, expiration: seconds)
    if notification.channel != nil, headers == nil {
      throw CarillonError(.payload, "A broadcast to a channel needs HTTP/2, and the app speaks the binary protocol.")
    }
    let findings = Self.findings(
      payload: payload, priority: notification.priority?.rawValue, app: app, kind: kind, headers: headers)
    if let error = findings.first(where: { $0.severity == .error }) { throw CarillonError(.payload, error.sentence) }
    warnings = findings.map { "\($0.path): \($0.sentence)" }
    collapseID = headers == nil ? nil : notification.collapseID
    identifier = headers == nil ? nil : notification.id.map(APNSIdentifier.init(uuid:))
    var common = headers
    common?.collapseIdentifier = nil
    common?.expiration = nil
    common?.priority = nil
    let isGroupwide =
      (collapseID?.utf8.count ?? 0) > RingRecord.OwnHeaders.collapseIdentifierByteCountLimitBesideExpiration
    expiration = isGroupwide ? nil : seconds
    group = Group(
      headers: common, expiration: isGroupwide ? seconds : nil,
      priority: headers?.priority ?? notification.priority?.rawValue)
  }

  /// The group of `count` more devices that get it.
  ///
  /// After many of them, it is a group of its own, whose campaign has the payload and the
  /// expiration. Then rings, journal and requests carry them once, and for each device only the
  /// token.
  func group(with count: Int) -> Group {
    let before = deviceCount.add(count, ordering: .relaxed).oldValue
    guard before >= Self.sharedDeviceCount, identifier == nil, collapseID == nil, !payload.isEmpty else { return group }
    var shared = group
    shared.expiration = expiration ?? group.expiration
    shared.payload = payload
    return shared
  }

  /// One that another node has checked.
  init(
    payload: [UInt8], group: Group, collapseID: String?, identifier: APNSIdentifier?, expiration: UInt32?
  ) {
    (self.payload, self.group, self.collapseID, self.identifier) = (payload, group, collapseID, identifier)
    (self.expiration, warnings) = (expiration, [])
  }

  static func headers(
    _ notification: PushNotification, app: AppConfiguration, kind: ProviderCredentialKind, expiration: UInt32?
  ) -> ProviderHeaders? {
    guard app.transport.isHTTP2 else { return nil }
    var headers = ProviderHeaders(
      topic: notification.topic ?? app.topic,
      pushType: notification.pushType?.wire ?? (notification.channel == nil ? app.pushType.wire : .liveActivity))
    headers.priority = notification.priority?.rawValue
    headers.expiration = expiration
    headers.collapseIdentifier = notification.collapseID
    headers.channelIdentifier = notification.channel
    // Spelled out, so that nothing but this decides about it, whatever the credential is by then.
    headers.topic = headers.effectiveTopic(for: kind)
    return headers
  }

  static func findings(
    payload: [UInt8], priority: UInt8?, app: AppConfiguration, kind: ProviderCredentialKind, headers: ProviderHeaders?
  ) -> [PayloadFinding] {
    if let headers { return headers.findings(payload: payload, credential: kind) }
    let findings = Payload.check(payload, for: .binary(app.command), priority: priority)
    guard priority == PushPriority.low.rawValue else { return findings }
    let sentence = "Priority 1 needs HTTP/2; over the binary protocol there are 5 and 10."
    return [PayloadFinding(severity: .error, path: JSONPath(), sentence: sentence)] + findings
  }
}

extension PreparedNotification.Group {
  /// What the engine sends for all of them; each brings a payload of its own, unless they share it.
  func campaign() -> Campaign {
    Campaign(payload: payload ?? [], expiration: expiration, priority: priority, headers: headers)
  }
}

extension APNSIdentifier {
  init(uuid: UUID) {
    let bytes = uuid.uuid
    func word(_ bytes: [UInt8]) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
    self.init(
      high: word([bytes.0, bytes.1, bytes.2, bytes.3, bytes.4, bytes.5, bytes.6, bytes.7]),
      low: word([bytes.8, bytes.9, bytes.10, bytes.11, bytes.12, bytes.13, bytes.14, bytes.15]))
  }
}
