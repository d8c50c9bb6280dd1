internal import CHeap

/// Gives memory back to the system where a peak has ended: after a large import, or a queue that
/// was long. malloc keeps it otherwise, in the arena of each thread.
///
/// malloc also counts what was given back as free, until it is used again. So what counts is how
/// much more is free than at any time since the last trim.
struct HeapTrim: Sendable {
  /// At least this much must have become free.
  private let threshold: Int
  /// What is free and was given back.
  private var trimmed = 0

  init(threshold: Int = 16 << 20) { self.threshold = threshold }

  /// Call it from time to time.
  ///
  /// - Parameter freeByteCount: what malloc keeps.
  /// - Returns: whether to trim now.
  mutating func isDue(freeByteCount: Int) -> Bool {
    trimmed = min(trimmed, freeByteCount)
    guard freeByteCount - trimmed >= threshold else { return false }
    trimmed = freeByteCount
    return true
  }

  /// The same for this process. It takes some milliseconds if there is much to give back.
  mutating func look() {
    if isDue(freeByteCount: Int(clamping: carillon_heap_free_bytes())) { carillon_heap_trim() }
  }
}
