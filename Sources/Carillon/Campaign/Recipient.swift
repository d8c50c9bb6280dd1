public import Foundation

/// Who gets a campaign's notification, and what is different for this one.
public struct Recipient: Hashable, Sendable {
  /// The device.
  public var token: DeviceToken
  /// What the placeholders of the notification stand for: `{{name}}` for the value of `name`. A
  /// recipient without a value that is needed is rejected, and the campaign continues.
  public var values: [String: String]
  /// The notification's `apns-id` (HTTP/2). Default nil: one is made.
  public var id: UUID?
  /// Instead of the notification's ``PushNotification/collapseID`` (HTTP/2). Default nil: that one.
  public var collapseID: String?

  /// Names a recipient.
  ///
  /// - Parameters:
  ///   - token: the device.
  ///   - values: what the placeholders of the notification stand for. Default: none.
  public init(_ token: DeviceToken, values: [String: String] = [:]) {
    (self.token, self.values) = (token, values)
  }
}

/// A notification of a campaign that was not accepted.
public struct UnacceptedNotification: Hashable, Sendable {
  /// Its place among the recipients, from 1; in a token file, its line.
  public let position: Int
  /// The device token in hexadecimal digits; for a malformed one the text as it stood there.
  public let token: String
  /// How it ended.
  public let outcome: PushOutcome
}

/// How far a campaign has come.
public struct CampaignProgress: Hashable, Sendable {
  /// What has become of its notifications so far.
  public let account: CampaignAccount
  /// How much of the recipients has been read, from 0 to 1. Nil if their number is unknown.
  public let fractionRead: Double?
  /// The time since it began in this process.
  public let elapsed: Duration
  /// It reads no recipients at present; see ``PushCampaign/pause()``.
  public let isPaused: Bool
  /// It has ended: the account is final.
  public let hasEnded: Bool
}
