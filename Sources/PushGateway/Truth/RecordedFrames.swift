package import PushTransport
package import PushWire
internal import Synchronization

/// A record of frames in memory, for tests. It is complete, has no limit, and takes a lock for each
/// frame.
package final class RecordedFrames: Sendable {
  package struct Frame: Hashable, Sendable {
    package var topic: String
    /// The gateway's number of the connection, from 1.
    package var connection: Int
    package var command: FrameVersion?
    /// Nil: the frame had no valid token.
    package var token: TokenBytes?
    package var identifier: UInt32?
    package var expiration: UInt32?
    package var priority: UInt8?
    package var payload: [UInt8]
    /// Nil: accepted.
    package var refusal: Refusal?
  }

  /// A connection that has ended, and its counts.
  package struct Connection: Hashable, Sendable {
    package var topic: String
    /// The gateway's number of the connection, from 1.
    package var number: Int
    package var accepted: Int
    /// Why the connection was ended; nil: the gateway refused nothing.
    package var refusal: Refusal?
    /// Frames after the refused one.
    package var discarded: Int
  }

  private struct State {
    var frames: [Frame] = []
    var endedConnections: [Connection] = []
    /// Shared by the frames that carry it, so a campaign's payload is held once.
    var lastPayload: [UInt8] = []
  }

  private let state = Mutex(State())

  package init() {}

  /// All accepted and refused frames, probes included, in the order of the decisions.
  package var frames: [Frame] { state.withLock { $0.frames } }

  /// The ended connections, in the order in which they ended.
  package var endedConnections: [Connection] { state.withLock { $0.endedConnections } }

  func ended(_ connection: Connection) { state.withLock { $0.endedConnections.append(connection) } }

  /// How often each token was accepted. More than once is a duplicate.
  package func accepted(topic: String) -> [TokenBytes: Int] {
    state.withLock { state in
      var tokens: [TokenBytes: Int] = [:]
      for frame in state.frames where frame.refusal == nil && frame.topic == topic {
        if let token = frame.token { tokens[token, default: 0] += 1 }
      }
      return tokens
    }
  }

  func append(_ decoded: DecodedFrame, topic: String, connection: Int, refusal: Refusal?) {
    state.withLock { state in
      if unsafe !decoded.payload.withUnsafeBytes({ unsafe state.lastPayload.holdsSameBytes(as: $0) }) {
        state.lastPayload = Array(decoded.payload)
      }
      state.frames.append(
        Frame(
          topic: topic, connection: connection, command: decoded.command, token: TokenBytes(bytes: decoded.token),
          identifier: decoded.identifier, expiration: decoded.expiration, priority: decoded.priority,
          payload: state.lastPayload, refusal: refusal))
    }
  }
}
