internal import PushService
internal import PushStore
internal import PushWire

/// Reads the lines of an import as they arrive. Holds one line, and one block of devices.
struct DeviceImport {
  private enum Form {
    case unknown
    case objects
    case table(DeviceTable)
  }

  private(set) var createdCount = 0
  private(set) var updatedCount = 0
  private(set) var rejectedCount = 0
  /// The first hundred lines that were rejected.
  private(set) var errors: [(line: Int, detail: String)] = []
  private var block: DeviceBlock
  /// What became of their devices may not be known yet.
  private var hasGivenBlocks = false

  private var form = Form.unknown
  private var lines = LineSplitter(byteCountLimit: Self.lineLimit)
  private let now: StoreInstant

  /// A device with the most and the longest tags needs half of it.
  static let lineLimit = 16 << 10
  private static let errorLimit = 100

  init(now: StoreInstant, uptime: Instant) {
    self.now = now
    block = DeviceBlock(place: DeviceBlockPlace(), beganAt: uptime)
  }

  /// The block has to be stored before more is taken.
  var isBlockFull: Bool { block.isFull }
  /// The block has waited long enough for more lines.
  func isBlockDue(now: Instant) -> Bool { block.isDue(now: now) }
  var isEmpty: Bool { block.devices.isEmpty && !hasGivenBlocks && rejectedCount == 0 }

  /// Takes what has arrived, up to a full block. Returns what is left.
  ///
  /// - Throws: ``Problem`` if the first line says that this is no import.
  mutating func take(_ bytes: ArraySlice<UInt8>) throws -> ArraySlice<UInt8> {
    var rest = bytes
    while !isBlockFull, let (line, number) = lines.next(&rest) { try add(line, number) }
    return rest
  }

  /// The last line may lack its end.
  mutating func finish() throws { if let (line, number) = lines.finish() { try add(line, number) } }

  mutating func takeBlock(now: Instant) -> DeviceBlock {
    hasGivenBlocks = true
    return exchange(&block, with: DeviceBlock(place: DeviceBlockPlace(), beganAt: now))
  }

  mutating func stored(_ counts: StoredCounts) {
    createdCount += counts.created
    updatedCount += counts.updated
  }

  struct StoredCounts: Sendable {
    var created = 0
    var updated = 0

    mutating func add(_ other: StoredCounts) {
      created += other.created
      updated += other.updated
    }

    mutating func add(_ results: [RegisteredDevice]) {
      for result in results {
        switch result {
        case .created: created += 1
        case .updated: updated += 1
        }
      }
    }
  }

  private mutating func add(_ line: ArraySlice<UInt8>?, _ number: Int) throws {
    guard let line else { return reject(number, "The line has more than \(Self.lineLimit) bytes.") }
    guard let first = line.first(where: { $0 != 32 && $0 != 9 }) else { return }
    do {
      switch form {
      case .unknown where first == UInt8(ascii: "{"):
        form = .objects
        fallthrough
      case .objects: block.add(try DeviceRequest.registration(line: line, now: now), byteCount: line.count)
      case .unknown: form = .table(try DeviceTable(header: line))
      case .table(let table): block.add(try table.registration(line: line, now: now), byteCount: line.count)
      }
    } catch let problem as Problem {
      if case .unknown = form { throw problem }
      reject(number, problem.errors.first?.pointer.map { "\($0): \(problem.detail)" } ?? problem.detail)
    }
  }

  private mutating func reject(_ line: Int, _ detail: String) {
    rejectedCount += 1
    if errors.count < Self.errorLimit { errors.append((line, detail)) }
  }
}

/// Lines of bytes that arrive in parts. A line that is too long is skipped without being held.
struct LineSplitter {
  private let byteCountLimit: Int
  /// The bytes of a line whose end has not arrived.
  private var begun: [UInt8] = []
  private var isTooLong = false
  /// Lines before the next one.
  private var count = 0

  init(byteCountLimit: Int) { self.byteCountLimit = byteCountLimit }

  /// The next whole line without its end, and its number from 1. Its bytes are nil if it was too
  /// long. Nil when no line ends within `bytes`, which are then taken.
  mutating func next(_ bytes: inout ArraySlice<UInt8>) -> (line: ArraySlice<UInt8>?, number: Int)? {
    guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
      if begun.count + bytes.count > byteCountLimit { isTooLong = true }
      if isTooLong { begun = [] } else { begun += bytes }
      bytes = []
      return nil
    }
    let part = bytes[bytes.startIndex..<end]
    bytes = bytes[(end + 1)...]
    return ended(with: part)
  }

  /// The last line, if it lacks its end.
  mutating func finish() -> (line: ArraySlice<UInt8>?, number: Int)? {
    begun.isEmpty && !isTooLong ? nil : ended(with: [])
  }

  private mutating func ended(with part: ArraySlice<UInt8>) -> (line: ArraySlice<UInt8>?, number: Int) {
    count += 1
    defer {
      begun = []
      isTooLong = false
    }
    guard !isTooLong, begun.count + part.count <= byteCountLimit else { return (nil, count) }
    let line = begun.isEmpty ? part : (begun + part)[...]
    return (line.last == UInt8(ascii: "\r") ? line.dropLast() : line, count)
  }
}
