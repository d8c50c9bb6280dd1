internal import PushEngine
internal import Synchronization

/// What one loop over a ``Multicast`` yields.
struct MulticastSequence<Source: Sendable, Element: Sendable>: AsyncSequence, Sendable {
  let source: Multicast<Source>
  /// Gets a value and how many before it were lost.
  let convert: @Sendable (Source, Int) -> Element

  func makeAsyncIterator() -> Iterator { Iterator(subscription: source.subscribe(), convert: convert) }

  struct Iterator: AsyncIteratorProtocol {
    let subscription: Multicast<Source>.Subscription
    let convert: @Sendable (Source, Int) -> Element

    mutating func next() async -> Element? {
      guard let (element, droppedCount) = await subscription.next() else { return nil }
      return convert(element, droppedCount)
    }
  }
}

/// Sends values to any number of readers, each of which has a buffer of its own.
///
/// A reader that is too slow loses the oldest values, and hears how many.
final class Multicast<Element: Sendable>: Sendable {
  private struct Reader {
    var elements: [Element] = []
    var droppedCount = 0
    let signal: ReaderSignal
  }

  private struct State {
    var readers: [UInt64: Reader] = [:]
    var nextNumber: UInt64 = 0
    var isFinished = false
  }

  private let state = Mutex(State())
  private let bufferLimit: Int

  init(bufferLimit: Int) { self.bufferLimit = bufferLimit }

  func send(_ element: Element) {
    let signals = state.withLock { state in
      guard !state.isFinished else { return [ReaderSignal]() }
      for number in state.readers.keys {
        guard var reader = state.readers.removeValue(forKey: number) else { continue }
        if reader.elements.count == bufferLimit {
          reader.elements.removeFirst()
          reader.droppedCount += 1
        }
        reader.elements.append(element)
        state.readers[number] = reader
      }
      return state.readers.values.map(\.signal)
    }
    for signal in signals { signal.set() }
  }

  /// Readers end when they have read what is in their buffers.
  func finish() {
    let signals = state.withLock { state in
      state.isFinished = true
      return state.readers.values.map(\.signal)
    }
    for signal in signals { signal.set() }
  }

  func subscribe() -> Subscription {
    let signal = ReaderSignal()
    let number = state.withLock { state in
      state.nextNumber += 1
      state.readers[state.nextNumber] = Reader(signal: signal)
      return state.nextNumber
    }
    return Subscription(number: number, source: self, signal: signal)
  }

  /// One reader's place. It gives its buffer back when it goes.
  final class Subscription: Sendable {
    private let number: UInt64
    private let source: Multicast
    private let signal: ReaderSignal

    fileprivate init(number: UInt64, source: Multicast, signal: ReaderSignal) {
      (self.number, self.source, self.signal) = (number, source, signal)
    }

    deinit { source.remove(number) }

    /// The next value, and how many before it were lost; nil at the end, or when the task is
    /// cancelled.
    func next() async -> (element: Element, droppedCount: Int)? {
      while !Task.isCancelled {
        switch source.take(number) {
        case .element(let element, let droppedCount): return (element, droppedCount)
        case .end: return nil
        case .nothing: break
        }
        await withTaskCancellationHandler {
          await signal.wait()
        } onCancel: {
          signal.set()
        }
      }
      return nil
    }
  }

  private enum Taken {
    case element(Element, droppedCount: Int)
    case nothing, end
  }

  private func take(_ number: UInt64) -> Taken {
    state.withLock { state in
      guard var reader = state.readers[number] else { return .end }
      guard !reader.elements.isEmpty else { return state.isFinished ? .end : .nothing }
      let element = reader.elements.removeFirst()
      let droppedCount = reader.droppedCount
      reader.droppedCount = 0
      state.readers[number] = reader
      return .element(element, droppedCount: droppedCount)
    }
  }

  private func remove(_ number: UInt64) { state.withLock { _ = $0.readers.removeValue(forKey: number) } }
}
