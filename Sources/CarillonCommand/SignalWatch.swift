internal import Carillon
internal import Dispatch
internal import Foundation
internal import Synchronization

/// Catches signals that would end the process.
final class SignalWatch: Sendable {
  /// Dispatch objects may be used from any thread, but are not declared `Sendable`.
  private nonisolated(unsafe) let sources: [any DispatchSourceSignal]

  /// Signals that ask a command to stop.
  static let stopping = [SIGINT, SIGTERM, SIGHUP]

  /// A terminal that closes may send SIGHUP twice, from the kernel and from the shell. So SIGHUP
  /// counts only as the first signal, and never as the second, which stops at once. A command that
  /// was started with SIGHUP ignored (`nohup`) continues to ignore it.
  ///
  /// - Parameter handler: called for each counted signal in turn, with its number: 1, 2, …
  init(_ signals: [Int32] = SignalWatch.stopping, handler: @escaping @Sendable (Int) -> Void) {
    let queue = DispatchQueue(label: "carillon.signals")
    let counter = Counter()
    var sources: [any DispatchSourceSignal] = []
    let registered = DispatchSemaphore(value: 0)
    for number in signals {
      if number == SIGHUP, Self.isIgnored(number) { continue }
      Foundation.signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
      source.setEventHandler {
        if number == SIGHUP, counter.value > 0 { return }
        handler(counter.next())
      }
      source.setRegistrationHandler { registered.signal() }
      source.activate()
      sources.append(source)
    }
    // A signal before its source is registered would be lost. Registering takes microseconds.
    for _ in sources { _ = registered.wait(timeout: .now() + .seconds(1)) }
    unsafe self.sources = sources
  }

  /// Calls `body` after the delay.
  static func after(_ delay: Duration, _ body: @escaping @Sendable () -> Void) {
    let (seconds, attoseconds) = delay.components
    let nanoseconds = Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000)
    DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(nanoseconds), execute: body)
  }

  private static func isIgnored(_ number: Int32) -> Bool {
    var action = sigaction()
    guard unsafe sigaction(number, nil, &action) == 0 else { return false }
    return unsafe unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
      == unsafeBitCast(SIG_IGN, to: Int.self)
  }

  /// Stops watching. The signals stay ignored.
  func stop() { for source in unsafe sources { source.cancel() } }

  /// A stream with one element per signal.
  static func arrivals(_ signals: [Int32] = SignalWatch.stopping) -> (watch: SignalWatch, stream: AsyncStream<Int>) {
    let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
    return (SignalWatch(signals) { continuation.yield($0) }, stream)
  }

  private final class Counter: Sendable {
    private let count = Atomic(0)
    var value: Int { count.load(ordering: .relaxed) }
    func next() -> Int { count.add(1, ordering: .relaxed).newValue }
  }
}

/// Lets exactly one of several threads do something.
final class OnceFlag: Sendable {
  private let hasBegun = Atomic(false)

  /// True for the first caller.
  func begin() -> Bool { !hasBegun.exchange(true, ordering: .acquiringAndReleasing) }
}
