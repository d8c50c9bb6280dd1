internal import NIOCore
internal import Synchronization

/// The open connections of a listener, so that they can be closed together.
final class OpenChannels: Sendable {
  private let channels = Mutex<[ObjectIdentifier: any Channel]>([:])

  var isEmpty: Bool { channels.withLock { $0.isEmpty } }

  func add(_ channel: any Channel) {
    let id = ObjectIdentifier(channel)
    channels.withLock { $0[id] = channel }
    channel.closeFuture.whenComplete { [self] _ in channels.withLock { $0[id] = nil } }
  }

  /// Whatever they do at present.
  func close() async {
    for channel in channels.withLock({ Array($0.values) }) { try? await channel.close(mode: .all).get() }
  }
}
