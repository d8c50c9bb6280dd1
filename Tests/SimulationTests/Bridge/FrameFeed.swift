internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushEngine

/// The audience of a run that takes in what a bridge forwards.
final class FrameFeed: AudienceSource {
  private struct State {
    var entries: [BridgeModel.Forwarded] = []
    var readCount = 0
    var isFinished = false
    var signal: ReaderSignal?
  }

  private let state = Mutex(State())
  private let gauge = ReservoirGauge()

  var reservoir: ReservoirGauge? { gauge }
  /// Notifications that no lane has taken yet.
  var queuedCount: Int { state.withLock { $0.entries.count - $0.readCount } + gauge.count }

  func attach(_ signal: ReaderSignal) { state.withLock { $0.signal = signal } }

  func add(_ entries: some Collection<BridgeModel.Forwarded>) { change { $0.entries += entries } }

  func finish() { change { $0.isFinished = true } }

  private func change(_ body: (inout State) -> Void) {
    let signal = state.withLock { state in
      body(&state)
      return state.signal
    }
    signal?.set()
  }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    return state.withLock { state in
      while state.readCount < state.entries.count, chunk.count < chunk.entryLimit {
        let entry = state.entries[state.readCount]
        guard chunk.hasRoom(payloadByteCount: entry.payload.count) else { break }
        state.readCount += 1
        if chunk.count == 0 {
          chunk.mark = AudienceMark(offset: UInt64(state.readCount - 1), line: UInt64(state.readCount))
        }
        chunk.append(line: UInt64(state.readCount), token: entry.token, payload: entry.payload)
      }
      if chunk.count > 0 { return .entries }
      return state.isFinished ? .end : .waiting
    }
  }
}
