public import Foundation
package import PushWire

/// One notification: what it says, and how it is to be delivered.
///
/// ```swift
/// let hello = PushNotification(alert: "Hello", badge: 1)
/// var quiet = PushNotification(PushPayload(alert: "3 new messages"))
/// quiet.priority = .consideringDevicePower
/// quiet.collapseID = "inbox"
/// quiet.expiration = .after(.seconds(3600))
/// ```
///
/// In a campaign, `{{name}}` in a string of the payload stands for the recipient's value of that
/// name. The value is escaped as JSON demands.
///
/// The headers are those of Apple's "Sending notification requests to APNs". Over the binary
/// protocol only ``expiration`` and ``priority`` are sent, and only in frames of command 1 and 2.
public struct PushNotification: Hashable, Sendable {
  /// What is sent to the device.
  public var content: Content
  /// What kind of notification it is (`apns-push-type`, HTTP/2). Default nil: the app's
  /// ``AppConfiguration/pushType``.
  public var pushType: PushType?
  /// How urgent its delivery is (`apns-priority`). Default nil: the service's, which is
  /// ``Priority/immediate``; of background notifications ``Priority/consideringDevicePower``.
  public var priority: Priority?
  /// Until when it is worth delivering (`apns-expiration`). Default nil: the service's, up to 30
  /// days.
  public var expiration: Expiration?
  /// Notifications with the same one replace each other on the device (`apns-collapse-id`, HTTP/2):
  /// 1 to 64 bytes of printable ASCII. Default nil: none.
  public var collapseID: String?
  /// Instead of the app's topic (`apns-topic`, HTTP/2). Default nil: the app's.
  public var topic: String?
  /// Its identifier at the service (`apns-id`, HTTP/2), which the service repeats in its answer.
  /// Default nil: one is made. Of a campaign's notification it is ignored; see ``Recipient/id``.
  public var id: UUID?
  /// The channel of a broadcast, which goes to no device (`apns-channel-id`, HTTP/2).
  package var channel: String?
  /// In the place of a broadcast's token, of which a notification has at least a byte: its path is
  /// the channel's.
  package static let broadcastToken: [UInt8] = [0]

  /// What is sent to the device.
  public enum Content: Hashable, Sendable {
    /// A payload made of its parts.
    case payload(PushPayload)
    /// JSON in UTF-8, sent as it is.
    case json([UInt8])
  }

  /// Makes a notification of a payload.
  public init(_ payload: PushPayload) { content = .payload(payload) }

  /// Makes a notification of JSON that is sent as it is.
  ///
  /// Whether it is a payload is checked when it is sent; see ``PushApp/check(_:)``.
  ///
  /// - Parameter json: an object with the key `aps`, in UTF-8.
  public init(json: some Collection<UInt8>) { content = .json(Array(json)) }

  /// Makes a notification that shows a text.
  ///
  /// - Parameters:
  ///   - alert: what is shown. A string literal is the body alone.
  ///   - badge: the number on the app's icon; 0 removes it.
  ///   - sound: a file of the app's, or ``PushPayload/Sound/default``.
  public init(alert: PushPayload.Alert, badge: Int? = nil, sound: PushPayload.Sound? = nil) {
    content = .payload(PushPayload(alert: alert, badge: badge, sound: sound))
  }

  /// Makes a notification that shows a text.
  ///
  /// - Parameters:
  ///   - text: the body of the alert.
  ///   - badge: the number on the app's icon; 0 removes it.
  ///   - sound: a file of the app's, or ``PushPayload/Sound/default``.
  public init(alert text: String, badge: Int? = nil, sound: PushPayload.Sound? = nil) {
    self.init(alert: PushPayload.Alert(body: text), badge: badge, sound: sound)
  }

  /// The bytes that are sent.
  public var json: [UInt8] {
    switch content {
    case .payload(let payload): payload.json
    case .json(let json): json
    }
  }
}

extension PushNotification {
  /// What kind of notification it is: `apns-push-type`. It decides about the topic's suffix, which
  /// is added, and about the size limit.
  public struct PushType: Hashable, Sendable, CustomStringConvertible {
    let wire: PushWire.PushType

    /// Shows, plays or badges something.
    public static let alert = PushType(wire: .alert)
    /// Wakes the app, and shows nothing. Its priority must be ``Priority/consideringDevicePower``.
    public static let background = PushType(wire: .background)
    /// Updates a watch complication. Topic suffix `.complication`.
    public static let complication = PushType(wire: .complication)
    /// Reloads controls. Topic suffix `.push-type.controls`.
    public static let controls = PushType(wire: .controls)
    /// Signals changes to a file provider. Topic suffix `.pushkit.fileprovider`.
    public static let fileProvider = PushType(wire: .fileProvider)
    /// Begins, changes or ends a Live Activity. Topic suffix `.push-type.liveactivity`.
    public static let liveActivity = PushType(wire: .liveActivity)
    /// Asks for the location. Topic suffix `.location-query`; token keys only.
    public static let location = PushType(wire: .location)
    /// Makes a managed device call its server. The payload is `{"mdm": …}`; certificates only.
    public static let deviceManagement = PushType(wire: .mdm)
    /// Begins push-to-talk. Topic suffix `.voip-ptt`.
    public static let pushToTalk = PushType(wire: .pushToTalk)
    /// An incoming call. Topic suffix `.voip`; up to 5,120 bytes.
    public static let voip = PushType(wire: .voip)
    /// Reloads widgets. Topic suffix `.push-type.widgets`.
    public static let widgets = PushType(wire: .widgets)

    package init(wire: PushWire.PushType) { self.wire = wire }

    /// - Parameter name: the value of the header, such as `liveactivity`.
    package init?(name: String) {
      guard let wire = PushWire.PushType(rawValue: name) else { return nil }
      self.init(wire: wire)
    }

    /// The value of the header, such as `liveactivity`.
    public var description: String { wire.rawValue }
  }

  /// How urgent the delivery is: `apns-priority`, or item 5 of a binary frame.
  public enum Priority: UInt8, Hashable, Sendable, CaseIterable {
    /// 1: power before everything else; never wakes the device. HTTP/2 only.
    case low = 1
    /// 5: when it saves power.
    case consideringDevicePower = 5
    /// 10: now.
    case immediate = 10
  }

  /// Until when a notification is worth delivering: `apns-expiration`, or item 4 of a binary frame.
  public enum Expiration: Hashable, Sendable {
    /// Delivered at once or never.
    case notStored
    /// Not after this time. Whole seconds are sent.
    case at(Date)
    /// The lifetime, counted from the call that sends it: of a campaign exactly, of a single
    /// notification shortened by less than 2 %, so that those of the same moment share it.
    case after(Duration)
  }
}
