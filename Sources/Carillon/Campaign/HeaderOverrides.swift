package import PushWire

/// Headers of HTTP/2 that a campaign sets itself. Where a property is nil, the app's settings hold.
package struct HeaderOverrides: Hashable, Sendable {
  package var topic: String?
  package var pushType: PushType?
  package var collapseIdentifier: String?
  /// The channel of a broadcast, which has no token file.
  package var channelIdentifier: String?

  package init(
    topic: String? = nil, pushType: PushType? = nil, collapseIdentifier: String? = nil,
    channelIdentifier: String? = nil
  ) {
    self.topic = topic
    self.pushType = pushType
    self.collapseIdentifier = collapseIdentifier
    self.channelIdentifier = channelIdentifier
  }

  /// The name of the first that is set.
  var name: String? {
    let names = [
      ("topic", topic != nil), ("push type", pushType != nil), ("collapse identifier", collapseIdentifier != nil),
      ("channel", channelIdentifier != nil),
    ]
    return names.first { $0.1 }?.0
  }
}
