package import PushWire
internal import Synchronization

/// A record of frames in memory, for tests: complete, unbounded, and locked for each frame.
package final class RecordedFrames: Sendable {
  package struct Frame: Hashable, Sendable {
    package var topic: String
    /// The gateway's number of the connection, from 1.
    package var connection: Int
    package var command: FrameVersion?
    /// Nil when the frame had none that is one.
    package var token: DeviceToken?
    package var identifier: UInt32?
    package var expiration: UInt32?
    package var priority: UInt8?
    package var payload: [UInt8]
    /// Nil: accepted.
    package var refusal: Refusal?
  }

  /// A connection that has ended, and how many frames have come on it.
  package struct Connection: Hashable, Sendable {
    package var topic: String
    /// The gateway's number of it, from 1.
    package var number: Int
    package var accepted: Int
    /// Why it had to end; nil: the gateway refused nothing.
    package var refusal: Refusal?
    /// Behind the refused frame.
    package var discarded: Int
  }

  private struct State {
    var frames: [Frame] = []
    var endedConnections: [Connection] = []
    /// Shared by the frames that carry it: a campaign's payload is held once.
    var lastPayload: [UInt8] = []
  }

  private let state = Mutex(State())

  package init() {}

  /// All frames that were accepted or refused (probes too), in the order in which that was decided.
  package var frames: [Frame] { state.withLock { $0.frames } }

  /// In the order in which they ended.
  package var endedConnections: [Connection] { state.withLock { $0.endedConnections } }

  func ended(_ connection: Connection) { state.withLock { $0.endedConnections.append(connection) } }

  /// How often each token was accepted. More than once is a duplicate.
  package func accepted(topic: String) -> [DeviceToken: Int] {
    state.withLock { state in
      var tokens: [DeviceToken: Int] = [:]
      for frame in state.frames where frame.refusal == nil && frame.topic == topic {
        if let token = frame.token { tokens[token, default: 0] += 1 }
      }
      return tokens
    }
  }

  func append(_ decoded: DecodedFrame, topic: String, connection: Int, refusal: Refusal?) {
    state.withLock { state in
      if unsafe !state.lastPayload.holdsSameBytes(as: decoded.payload) { state.lastPayload = unsafe Array(decoded.payload) }
      state.frames.append(
        unsafe Frame(
          topic: topic,
          connection: connection,
          command: decoded.command,
          token: DeviceToken(bytes: decoded.token),
          identifier: decoded.identifier,
          expiration: decoded.expiration,
          priority: decoded.priority,
          payload: state.lastPayload,
          refusal: refusal
        )
      )
    }
  }
}
