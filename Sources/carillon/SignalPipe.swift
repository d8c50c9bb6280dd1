internal import Dispatch
internal import Foundation
internal import Synchronization

/// Where the handler of a signal writes to; -1 until there is a pipe. A handler may touch nothing that takes a lock.
private let handlerDescriptor = Atomic<Int32>(-1)

/// Carries signals from their handler, in which hardly anything is allowed, to a queue.
final class SignalPipe: Sendable {
  /// Dispatch's own objects may be used from any thread; it only does not say so to the compiler.
  private nonisolated(unsafe) let source: (any DispatchSourceRead)?
  private let listeners = Mutex<[Int: Listener]>([:])

  private struct Listener {
    let signals: [Int32]
    let handler: @Sendable (Int32) -> Void
  }

  static let shared = SignalPipe()

  private init() {
    var ends: [Int32] = [-1, -1]
    // Without a pipe (no descriptors left) signals keep what they do by default: they end the process.
    guard unsafe pipe(&ends) == 0 else {
      unsafe source = nil
      return
    }
    for end in ends {
      _ = fcntl(end, F_SETFD, FD_CLOEXEC)
      // A handler must not wait: with 64 KiB of signals unread, one more says nothing new.
      _ = fcntl(end, F_SETFL, O_NONBLOCK)
    }
    let read = ends[0]
    handlerDescriptor.store(ends[1], ordering: .sequentiallyConsistent)
    let source = DispatchSource.makeReadSource(fileDescriptor: read, queue: DispatchQueue(label: "carillon.signals"))
    unsafe self.source = source
    source.setEventHandler { [weak self] in self?.deliver(from: read) }
    source.activate()
  }

  /// Calls `handler` on one queue for each of `signals` that arrives from now on. Returns what ``stop(_:)`` takes.
  func listen(to signals: [Int32], handler: @escaping @Sendable (Int32) -> Void) -> Int {
    let identifier = listeners.withLock { listeners in
      let identifier = (listeners.keys.max() ?? 0) + 1
      listeners[identifier] = Listener(signals: signals, handler: handler)
      return identifier
    }
    guard handlerDescriptor.load(ordering: .sequentiallyConsistent) >= 0 else { return identifier }
    for number in signals { Self.install(number) }
    return identifier
  }

  func stop(_ identifier: Int) { listeners.withLock { $0[identifier] = nil } }

  private static func install(_ number: Int32) {
    var action = sigaction()
    unsafe action.__sigaction_handler.sa_handler = { number in
      let before = errno
      var byte = UInt8(truncatingIfNeeded: number)
      _ = unsafe write(handlerDescriptor.load(ordering: .relaxed), &byte, 1)
      errno = before
    }
    action.sa_flags = SA_RESTART
    _ = unsafe sigaction(number, &action, nil)
  }

  private func deliver(from descriptor: Int32) {
    var bytes: [UInt8] = Array(repeating: 0, count: 64)
    while true {
      let count = unsafe read(descriptor, &bytes, bytes.count)
      guard count > 0 else { return }
      for byte in bytes[..<count] {
        let number = Int32(byte)
        let handlers = listeners.withLock { listeners in listeners.values.filter { $0.signals.contains(number) }.map(\.handler) }
        for handler in handlers { handler(number) }
      }
    }
  }
}
