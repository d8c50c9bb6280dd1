internal import PushWire
internal import Synchronization

/// The broadcast channels of all apps (HTTP2ProviderAPI, section 6), in memory.
final class ChannelStore: Sendable {
  struct Channel: Hashable, Sendable {
    /// `message-storage-policy`: 0 stores nothing, 1 the most recent message.
    var storesMessages: Bool
  }

  /// The maximum number of channels of one app.
  static let limit = 10_000
  /// The same as ``ServiceLedger/appLimit``: app names come from clients.
  private static let appLimit = 4096

  private let channels = Mutex<[String: [String: Channel]]>([:])

  /// Creates a channel and returns its identifier; nil: a limit is reached.
  func create(_ channel: Channel, app: String) -> String? {
    let bytes = (0..<16).map { _ in UInt8.random(in: 0 ... .max) }
    let identifier = Self.text(bytes)
    return channels.withLock { channels in
      guard channels[app] != nil || channels.count < Self.appLimit, channels[app, default: [:]].count < Self.limit
      else { return nil }
      channels[app, default: [:]][identifier] = channel
      return identifier
    }
  }

  func channel(_ identifier: String, app: String) -> Channel? { channels.withLock { $0[app]?[identifier] } }

  /// Removes a channel; false: it does not exist.
  func remove(_ identifier: String, app: String) -> Bool {
    channels.withLock { $0[app]?.removeValue(forKey: identifier) != nil }
  }

  /// All channel identifiers of an app, in alphabetical order.
  func all(app: String) -> [String] { channels.withLock { $0[app].map { $0.keys.sorted() } ?? [] } }

  /// Base64 with padding, as the service writes channel identifiers.
  private static func text(_ bytes: [UInt8]) -> String {
    String(decoding: Base64URL.encodePadded(bytes), as: UTF8.self)
  }

  /// Checks that a text has the form of a channel identifier.
  static func isIdentifier(_ text: UnsafeRawBufferPointer) -> Bool {
    guard text.count > 0, text.count <= 128, text.count % 4 == 0 else { return false }
    var padding = 0
    for index in 0..<text.count {
      let byte = unsafe text[index]
      if byte == UInt8(ascii: "=") {
        padding += 1
        continue
      }
      let isDigit =
        (byte | 0x20) &- 0x61 < 26 || byte &- 0x30 < 10 || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "/")
      guard isDigit, padding == 0 else { return false }
    }
    return padding <= 2
  }
}
