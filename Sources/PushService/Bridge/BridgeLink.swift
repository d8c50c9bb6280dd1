package import PushWire
internal import Synchronization

/// Passes messages of other threads to a connection of the bridge.
package final class BridgeLink: Sendable {
  package enum Message: Sendable {
    /// The answer to neighbouring frames, from this one on.
    case answer(frame: UInt64, count: Int, FrameAnswer)
    /// Its upstream takes nothing more, or the bridge ends.
    ///
    /// - by: when the client must have been told; nil: with the answers, in the usual time.
    case end(by: Instant?)
    /// The configuration was read again: the client may belong to another app now, or to none.
    case clientsChanged
    /// Old frames are to be forgotten, and this many are kept from now on.
    case sweep(trailLimit: Int)
  }

  private struct State {
    var messages: [Message] = []
    /// The first frames of batches that the journal does not have yet.
    var unjournalled: [UInt64] = []
    /// Reads the messages on the connection's event loop. Nil: it has ended.
    var wake: (@Sendable () -> Void)?
  }

  /// Names the connection; unique among all processes, for what is remembered of it.
  let id: UInt64
  /// The fingerprint of its certificate.
  let client: String
  private let state: Mutex<State>

  package init(id: UInt64 = .random(in: 1 ... .max), client: String, wake: @escaping @Sendable () -> Void) {
    (self.id, self.client) = (id, client)
    state = Mutex(State(wake: wake))
  }

  /// - Returns: what must be called afterwards, without locks.
  func put(_ message: Message) -> (@Sendable () -> Void)? { put(CollectionOfOne(message)) }

  /// The same for several, in their order.
  func put(_ messages: some Collection<Message>) -> (@Sendable () -> Void)? {
    state.withLock { state in
      guard let wake = state.wake else { return nil }
      let isFirst = state.messages.isEmpty
      state.messages += messages
      return isFirst && !messages.isEmpty ? wake : nil
    }
  }

  /// The app takes in frames from this one on.
  func handsOver(_ frame: UInt64) { state.withLock { $0.unjournalled.append(frame) } }

  /// The frames that began with this one are in the journal.
  func isJournalled(_ frame: UInt64) { state.withLock { $0.unjournalled.removeAll { $0 == frame } } }

  /// The first frame that is not in the journal.
  var firstUnjournalled: UInt64? { state.withLock { $0.unjournalled.min() } }

  func take() -> [Message] { state.withLock { exchange(&$0.messages, with: []) } }

  func close() {
    state.withLock { state in
      state.messages = []
      state.wake = nil
    }
  }
}
