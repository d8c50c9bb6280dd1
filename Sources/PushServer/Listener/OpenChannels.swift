internal import NIOCore
internal import Synchronization

/// The open connections of a listener, so that they can be closed together.
final class OpenChannels: Sendable {
  private struct State {
    var channels: [ObjectIdentifier: any Channel] = [:]
    /// By address.
    var counts: [String: Int] = [:]
  }

  private let state = Mutex(State())
  private let limit: Int
  private let limitPerAddress: Int

  /// Connections that an address may have however few there are.
  private static let least = 16

  /// - Parameter limit: of all connections. One address has at most three quarters of them, so that
  ///   no client takes them all, and a proxy in front has enough.
  init(limit: Int = .max) {
    self.limit = limit
    limitPerAddress = max(limit / 4 * 3, min(limit, Self.least))
  }

  var isEmpty: Bool { state.withLock { $0.channels.isEmpty } }
  /// Newcomers wait.
  var isFull: Bool { state.withLock { $0.channels.count >= limit } }

  /// - Returns: false if the address has its share.
  @discardableResult
  func add(_ channel: any Channel, from address: String = "") -> Bool {
    let id = ObjectIdentifier(channel)
    let isAdded = state.withLock { state in
      guard state.counts[address, default: 0] < limitPerAddress else { return false }
      state.channels[id] = channel
      state.counts[address, default: 0] += 1
      return true
    }
    guard isAdded else { return false }
    channel.closeFuture.whenComplete { [self] _ in
      state.withLock { state in
        state.channels[id] = nil
        let left = (state.counts[address] ?? 1) - 1
        state.counts[address] = left > 0 ? left : nil
      }
    }
    return true
  }

  /// Whatever they do at present.
  func close() async {
    for channel in state.withLock({ Array($0.channels.values) }) { try? await channel.close(mode: .all).get() }
  }
}
