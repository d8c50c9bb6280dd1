/// The value of `apns-push-type`, the kind of notification (HTTP2ProviderAPI.md, section 3).
package enum PushType: String, Hashable, Sendable, CaseIterable, Codable {
  case alert, background, complication, controls
  case fileProvider = "fileprovider"
  case liveActivity = "liveactivity"
  case location, mdm
  case pushToTalk = "pushtotalk"
  case voip, widgets

  /// The suffix of the topic behind the bundle identifier; empty if there is none.
  package var topicSuffix: String {
    switch self {
    case .alert, .background, .mdm: ""
    case .complication: ".complication"
    case .controls: ".push-type.controls"
    case .fileProvider: ".pushkit.fileprovider"
    case .liveActivity: ".push-type.liveactivity"
    case .location: ".location-query"
    case .pushToTalk: ".voip-ptt"
    case .voip: ".voip"
    case .widgets: ".push-type.widgets"
    }
  }

  /// The largest payload in bytes of uncompressed JSON.
  package var payloadLimit: Int { transport.payloadLimit }

  /// The transport whose rules a payload is checked against.
  package var transport: PayloadTransport { self == .voip ? .voip : .http2 }

  /// `topic` with the suffix of this type, unless it already has it.
  package func topic(for topic: String) -> String {
    topicSuffix.isEmpty || topic.hasSuffix(topicSuffix) ? topic : topic + topicSuffix
  }
}

/// The value of `apns-priority`.
package enum PushPriority: UInt8, Hashable, Sendable, CaseIterable {
  /// Saves power above all; never wakes the device.
  case low = 1
  /// Delivered when it saves power.
  case consideringDevicePower = 5
  /// Delivered at once. The service's default.
  case immediate = 10
}
