/// `apns-push-type`: what kind of notification it is (HTTP2ProviderAPI.md, section 3). The raw value is the header's.
package enum PushType: String, Hashable, Sendable, CaseIterable, Codable {
  case alert
  case background
  case complication
  case controls
  case fileProvider = "fileprovider"
  case liveActivity = "liveactivity"
  case location
  case mdm
  case pushToTalk = "pushtotalk"
  case voip
  case widgets

  /// What the topic has after the bundle identifier; empty for none.
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

  /// What a payload is checked for.
  package var transport: PayloadTransport { self == .voip ? .voip : .http2 }

  /// Of these the payload is `{"mdm":…}` without `aps`.
  package var isDeviceManagement: Bool { self == .mdm }

  /// `topic` with the suffix of this type, unless it has it already.
  package func topic(for topic: String) -> String {
    topicSuffix.isEmpty || topic.hasSuffix(topicSuffix) ? topic : topic + topicSuffix
  }
}

/// `apns-priority`.
package enum PushPriority: UInt8, Hashable, Sendable, CaseIterable {
  /// Power before everything else: never wakes the device.
  case low = 1
  /// When it saves power.
  case considerate = 5
  /// Now. What the service takes if none is given.
  case immediate = 10
}
