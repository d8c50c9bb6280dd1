internal import Glibc
internal import Synchronization

/// A token file on disk or standard input, read in blocks: the thin shell around ``AudienceReader``.
///
/// Reading blocks the calling thread: for a disk hardly, for a pipe until something comes or ``cancel()`` is called. So it belongs on a thread of its own.
@safe package final class AudienceFile: @unchecked Sendable {
  // Sync: one thread reads, start to end; only cancel() may be called from others, and it touches nothing but an atomic flag and a descriptor that lives as long as this object.

  /// 512 KiB: large enough that system calls do not show, small enough to stay in the cache.
  private static let blockByteCount = 512 * 1024

  /// `-` for standard input.
  package let path: String
  /// What the first line says about the rest.
  package let header: AudienceHeader
  /// The size of the file; nil for a pipe or a terminal.
  package let byteCount: Int?
  /// How much of it has gone into chunks, header included: for the progress.
  package private(set) var consumedByteCount = 0

  private let input: AudienceInput
  private var reader: AudienceReader
  private var position: Int
  private var isFinished = false
  private var hasEntries = false

  /// Opens the file and reads its first block.
  ///
  /// - Parameter makeRenderer: called once with the header: what makes the payload of each line, nil for one payload for all. What it throws is thrown on.
  package init(path: String, renderer makeRenderer: (AudienceHeader) throws -> PayloadRenderer? = { _ in nil }) throws {
    self.path = path
    input = try AudienceInput(path: path, blockByteCount: Self.blockByteCount)
    byteCount = input.byteCount
    header = try Self.detectHeader(input)
    reader = AudienceReader(header, renderer: try makeRenderer(header))
    position = header.byteCount
    consumedByteCount = header.byteCount
  }

  /// Empties `chunk` and fills it with the next entries.
  ///
  /// A pipe that pauses gives a part of a chunk instead of holding back what came.
  /// - Returns: false when the file is at its end (or ``cancel()`` was called) and the chunk is empty.
  package func fill(_ chunk: AudienceChunk) throws(AudienceError) -> Bool {
    chunk.removeAll()
    while !isFinished {
      if position == input.count {
        if input.isAtEnd {
          isFinished = reader.finish(into: chunk)
          hasEntries = hasEntries || chunk.count > 0
          if !hasEntries, !input.wasCancelled { throw AudienceError(path: path, problem: .format(.empty)) }
          return chunk.count > 0
        }
        if chunk.count > 0, !input.isReadable { return true }
        input.discardAll()
        position = 0
        guard try input.readMore() else { break }
        continue
      }
      let used = unsafe reader.read(UnsafeRawBufferPointer(rebasing: input.bytes[position...]), into: chunk)
      position += used
      consumedByteCount += used
      hasEntries = hasEntries || chunk.count > 0
      if position < input.count { return true }
    }
    return chunk.count > 0
  }

  /// Ends a read that waits, and makes every later ``fill(_:)`` return false. From any thread, at any time.
  package func cancel() { input.cancel() }

  private static func detectHeader(_ input: AudienceInput) throws(AudienceError) -> AudienceHeader {
    while true {
      do throws(AudienceFormatError) {
        // A file is looked at as far as a header can reach, so that one without a row is noticed; a pipe no further than it must, as it may pause.
        let isEnough = input.byteCount == nil || input.isAtEnd || input.count > AudienceReader.lineByteLimit
        if isEnough, let header = try AudienceHeader.detect(unsafe Array(input.bytes), isWhole: input.isAtEnd) { return header }
      } catch {
        throw AudienceError(path: input.path, problem: .format(error))
      }
      guard try input.readMore() else { throw AudienceError(path: input.path, problem: .format(.empty)) }
    }
  }
}

/// The descriptor and the block that is read into.
@safe private final class AudienceInput: Sendable {
  // Sync: as AudienceFile, whose reading thread alone uses the block; the flag is atomic.
  let path: String
  let byteCount: Int?
  private let descriptor: Int32
  private let isOurs: Bool
  private nonisolated(unsafe) let block: UnsafeMutableRawBufferPointer
  private nonisolated(unsafe) var filled = 0
  private nonisolated(unsafe) var end = false
  private let isCancelled = Atomic(false)
  /// A pipe whose other end cancel() writes to, so that a waiting read wakes.
  private let wakeReading: Int32
  private let wakeWriting: Int32

  init(path: String, blockByteCount: Int) throws(AudienceError) {
    self.path = path
    if path == "-" {
      descriptor = STDIN_FILENO
      isOurs = false
    } else {
      let opened = unsafe open(path, O_RDONLY | O_CLOEXEC)
      guard opened >= 0 else { throw AudienceError(path: path, problem: .cannotOpen(Self.reason(errno))) }
      descriptor = opened
      isOurs = true
    }
    var status = stat()
    let isKnown = unsafe fstat(descriptor, &status) == 0
    byteCount = isKnown && status.st_mode & S_IFMT == S_IFREG ? Int(status.st_size) : nil
    var ends: [Int32] = [-1, -1]
    let piped = unsafe pipe(&ends)
    for end in ends where piped == 0 { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    (wakeReading, wakeWriting) = (ends[0], ends[1])
    unsafe block = .allocate(byteCount: blockByteCount, alignment: 64)
    // From here on everything is initialised, so that deinit gives it back when one of these throws.
    if piped != 0 { throw AudienceError(path: path, problem: .cannotOpen(Self.reason(errno))) }
    if isKnown, status.st_mode & S_IFMT == S_IFDIR { throw AudienceError(path: path, problem: .isFolder) }
  }

  deinit {
    if isOurs { close(descriptor) }
    if wakeReading >= 0 { close(wakeReading) }
    if wakeWriting >= 0 { close(wakeWriting) }
    unsafe block.deallocate()
  }

  var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(rebasing: block[..<filled]) }
  var count: Int { unsafe filled }
  var isAtEnd: Bool { unsafe end }
  var wasCancelled: Bool { isCancelled.load(ordering: .acquiring) }

  func discardAll() { unsafe filled = 0 }

  /// Whether a read would return at once.
  var isReadable: Bool { waitForInput(milliseconds: 0) }

  /// Reads once, behind what the block holds. False at the end and after cancel().
  func readMore() throws(AudienceError) -> Bool {
    while true {
      if byteCount == nil { _ = waitForInput(milliseconds: -1) }
      if wasCancelled {
        unsafe end = true
        return false
      }
      let room = unsafe UnsafeMutableRawBufferPointer(rebasing: block[filled...])
      let count = unsafe read(descriptor, room.baseAddress, room.count)
      if count > 0 {
        unsafe filled += count
        return true
      }
      if count == 0 {
        unsafe end = true
        return true
      }
      if errno != EINTR && errno != EAGAIN { throw AudienceError(path: path, problem: .cannotRead(Self.reason(errno))) }
    }
  }

  func cancel() {
    isCancelled.store(true, ordering: .releasing)
    var byte: UInt8 = 0
    _ = unsafe write(wakeWriting, &byte, 1)
  }

  /// True also when the wait was cut short; the caller's read finds out.
  private func waitForInput(milliseconds: Int32) -> Bool {
    var waits = [pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0), pollfd(fd: wakeReading, events: Int16(POLLIN), revents: 0)]
    return unsafe poll(&waits, 2, milliseconds) != 0
  }

  private static func reason(_ code: Int32) -> String {
    unsafe String(cString: strerror(code))
  }
}
