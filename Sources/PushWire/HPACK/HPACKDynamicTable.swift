/// The dynamic table of a decoder (RFC 7541, 2.3.2), within a fixed limit.
///
/// The entries' bytes lie one behind the other in memory of twice the limit. What is evicted stays
/// in place until the memory is full, so an entry may take its name from one that it evicts.
@safe
struct HPACKDynamicTable: ~Copyable {
  private struct Entry {
    var start: Int32 = 0
    var nameCount: Int32 = 0
    var valueCount: Int32 = 0
    var note: UInt8 = 0

    var byteCount: Int { Int(nameCount + valueCount) }
  }

  /// What an entry costs beside its bytes.
  static let overhead = 32

  /// The most that the peer may choose for ``limit``.
  let largestLimit: Int
  private(set) var limit: Int
  /// With each entry's overhead.
  private(set) var byteCount = 0
  private(set) var count = 0

  // Allocated for the first entry: many connections never have any.
  private var memory: UnsafeMutablePointer<UInt8>?
  private var end = 0
  private var entries: UnsafeMutablePointer<Entry>?
  private let mask: Int
  /// The number of entries ever added. The newest is at `(added - 1) & mask`.
  private var added = 0

  init(limit: Int) {
    (largestLimit, self.limit) = (limit, limit)
    var capacity = 1
    while capacity < limit / Self.overhead { capacity *= 2 }
    mask = capacity - 1
  }

  deinit {
    unsafe memory?.deallocate()
    unsafe entries?.deallocate()
  }

  /// - Parameter index: 0 is the newest entry; less than ``count``.
  func entry(_ index: Int) -> (name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, note: UInt8)? {
    guard index >= 0, index < count, let memory = unsafe memory, let entries = unsafe entries else { return nil }
    let entry = unsafe entries[(added - 1 - index) & mask]
    let start = unsafe UnsafeRawPointer(memory + Int(entry.start))
    return unsafe (
      UnsafeRawBufferPointer(start: start, count: Int(entry.nameCount)),
      UnsafeRawBufferPointer(start: start + Int(entry.nameCount), count: Int(entry.valueCount)), entry.note
    )
  }

  /// Keeps a note with the newest entry.
  mutating func note(_ note: UInt8) {
    if count > 0, let entries = unsafe entries { unsafe entries[(added - 1) & mask].note = note }
  }

  /// The peer has chosen a limit, at most the largest one.
  mutating func resize(_ limit: Int) {
    self.limit = min(limit, largestLimit)
    evict(to: self.limit)
  }

  /// Makes room for any entry. It may move the entries, so take a name from one afterwards.
  mutating func prepare() {
    if let memory = unsafe memory {
      if end > largestLimit { unsafe compact(memory) }
    } else {
      unsafe memory = .allocate(capacity: max(2 * largestLimit, 1))
      unsafe entries = .allocate(capacity: mask + 1)
    }
  }

  /// Adds an entry after ``prepare()``, without a note. One that exceeds the limit empties the
  /// table (4.4).
  ///
  /// - Returns: whether it is in the table.
  @discardableResult
  mutating func add(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) -> Bool {
    let cost = name.count + value.count + Self.overhead
    evict(to: max(0, limit - cost))
    guard cost <= limit, let memory = unsafe memory, let entries = unsafe entries else { return false }
    let room = unsafe UnsafeMutableRawPointer(memory + end)
    if let base = name.baseAddress { unsafe room.copyMemory(from: base, byteCount: name.count) }
    if let base = value.baseAddress { unsafe (room + name.count).copyMemory(from: base, byteCount: value.count) }
    unsafe entries[added & mask] = Entry(
      start: Int32(end), nameCount: Int32(name.count), valueCount: Int32(value.count))
    added += 1
    count += 1
    byteCount += cost
    end += name.count + value.count
    return true
  }

  private mutating func evict(to wanted: Int) {
    guard byteCount > wanted, let entries = unsafe entries else { return }
    while byteCount > wanted, count > 0 {
      byteCount -= unsafe entries[(added - count) & mask].byteCount + Self.overhead
      count -= 1
    }
  }

  private mutating func compact(_ memory: UnsafeMutablePointer<UInt8>) {
    guard let entries = unsafe entries else { return }
    var place = 0
    for age in (0..<count).reversed() {
      let index = (added - 1 - age) & mask
      let entry = unsafe entries[index]
      // Forward only, and entries lie in the order of their age.
      unsafe (memory + place).update(from: memory + Int(entry.start), count: entry.byteCount)
      unsafe entries[index].start = Int32(place)
      place += entry.byteCount
    }
    end = place
  }
}
