internal import Dispatch
internal import Foundation
internal import Synchronization

/// Catches signals instead of dying of them.
final class SignalWatch: Sendable {
  private let sources: Mutex<[any DispatchSourceSignal]>
  private let count = Atomic(0)

  /// - Parameter handler: called for each signal, one after the other, with how many there have been: 1, 2, …
  init(_ signals: [Int32] = [SIGINT, SIGTERM], handler: @escaping @Sendable (Int) -> Void) {
    sources = Mutex([])
    let queue = DispatchQueue(label: "carillon.signals")
    for number in signals {
      Foundation.signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
      source.setEventHandler { [weak self] in
        guard let self else { return }
        handler(count.add(1, ordering: .relaxed).newValue)
      }
      source.activate()
      sources.withLock { $0.append(source) }
    }
  }

  /// The signals are ignored from here on.
  func stop() {
    sources.withLock { sources in
      for source in sources { source.cancel() }
      sources = []
    }
  }

  /// A stream with one element per signal.
  static func arrivals(_ signals: [Int32] = [SIGINT, SIGTERM]) -> (watch: SignalWatch, stream: AsyncStream<Int>) {
    let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
    return (SignalWatch(signals) { continuation.yield($0) }, stream)
  }
}
