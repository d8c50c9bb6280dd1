internal import Dispatch
internal import Foundation
internal import Synchronization

/// Catches signals instead of dying of them.
final class SignalWatch: Sendable {
  /// Dispatch's own objects may be used from any thread; it only does not say so to the compiler.
  private nonisolated(unsafe) let sources: [any DispatchSourceSignal]

  /// - Parameter handler: called for each signal, one after the other, with how many there have been: 1, 2, …
  init(_ signals: [Int32] = [SIGINT, SIGTERM], handler: @escaping @Sendable (Int) -> Void) {
    let queue = DispatchQueue(label: "carillon.signals")
    let counter = Counter()
    var sources: [any DispatchSourceSignal] = []
    for number in signals {
      Foundation.signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
      source.setEventHandler { handler(counter.next()) }
      source.activate()
      sources.append(source)
    }
    unsafe self.sources = sources
  }

  /// The signals are ignored from here on.
  func stop() {
    for source in unsafe sources { source.cancel() }
  }

  /// A stream with one element per signal.
  static func arrivals(_ signals: [Int32] = [SIGINT, SIGTERM]) -> (watch: SignalWatch, stream: AsyncStream<Int>) {
    let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
    return (SignalWatch(signals) { continuation.yield($0) }, stream)
  }

  private final class Counter: Sendable {
    private let count = Atomic(0)
    func next() -> Int { count.add(1, ordering: .relaxed).newValue }
  }
}
