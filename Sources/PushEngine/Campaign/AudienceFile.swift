internal import Glibc
internal import Synchronization

/// A token file on disk or standard input, read in blocks: the thin shell around ``AudienceReader``.
@safe package final class AudienceFile: AudienceSource, @unchecked Sendable {
  // Sync: one task at a time fills chunks from it; the progress alone may be read by others, and is atomic.

  /// 512 KiB: large enough that system calls do not show, small enough to stay in the cache.
  private static let blockByteCount = 512 * 1024
  /// One call reads so many blocks at most, so that whoever fills chunks can look whether the campaign was cancelled.
  private static let blocksPerCall = 2

  /// `-` for standard input.
  package let path: String
  /// What the first line says about the rest.
  package let header: AudienceHeader
  /// The size of the file; nil for a pipe or a terminal.
  package let byteCount: Int?
  /// How much of it has gone into chunks, header included: for the progress.
  package var consumedByteCount: Int { consumed.load(ordering: .relaxed) }

  private let consumed = Atomic<Int>(0)
  /// Behind the header, or where it was told to begin.
  private let start: AudienceMark
  private let input: AudienceInput
  private var reader: AudienceReader
  private var position: Int
  private var isFinished = false
  private var hasEntries = false
  /// See ``AudienceChunk/mark``.
  private var mark: AudienceMark

  /// Opens the file and reads its beginning; of a pipe, waits for it.
  ///
  /// - Parameters:
  ///   - mark: where to go on, in a file that has been read before; nil: behind the header.
  ///   - readsHeaders: see ``AudienceReader``.
  ///   - makeRenderer: called once with the header: what makes the payload of each line, nil for one payload for all. What it throws is thrown on.
  package init(
    path: String, from mark: AudienceMark? = nil, readsHeaders: Bool = false, renderer makeRenderer: (AudienceHeader) throws -> PayloadRenderer? = { _ in nil }
  ) throws {
    self.path = path
    input = try AudienceInput(path: path, blockByteCount: Self.blockByteCount)
    byteCount = input.byteCount
    header = try Self.detectHeader(input)
    let first = AudienceMark(offset: UInt64(header.byteCount), line: header.firstLine)
    if let mark, mark.offset > header.byteCount {
      try input.seek(to: mark.offset)
      start = mark
      position = 0
      hasEntries = true
    } else {
      start = first
      position = header.byteCount
    }
    self.mark = start
    reader = AudienceReader(header, renderer: try makeRenderer(header), readsHeaders: readsHeaders, firstLine: self.mark.line)
    consumed.store(Int(clamping: self.mark.offset), ordering: .relaxed)
  }

  /// Empties `chunk` and puts the next entries into it. Never waits: a pipe that pauses gives a part of a chunk, or nothing yet, and blocks without a
  /// single entry (blank lines, the rest of an overlong line) give nothing for no time.
  ///
  /// - Throws: an error also when the whole file had no entry at all, or a line has no end.
  package func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    if let restart = reader.restart { mark = AudienceMark(offset: UInt64(consumedByteCount - restart.carriedByteCount), line: restart.line) }
    chunk.mark = mark
    var blockCount = 0
    while !isFinished {
      if let line = reader.endlessLine {
        if chunk.count == 0 { throw AudienceError(path: path, problem: .endlessLine(line)) }
        break
      }
      if position < input.count || reader.hasLines {
        let used = unsafe reader.read(UnsafeRawBufferPointer(rebasing: input.bytes[position...]), into: chunk)
        position += used
        consumed.add(used, ordering: .relaxed)
        if position < input.count || reader.hasLines { break }
      } else if input.isAtEnd {
        isFinished = reader.finish(into: chunk)
        if !isFinished { break }
      } else if input.isReadable {
        if blockCount == Self.blocksPerCall {
          if chunk.count > 0 { break }
          return .nothingFor(.zero)
        }
        blockCount += 1
        input.discardAll()
        position = 0
        try input.readMore()
      } else {
        break
      }
    }
    hasEntries = hasEntries || chunk.count > 0
    if chunk.count > 0 { return .entries }
    if !isFinished { return .nothingYet }
    if !hasEntries { throw AudienceError(path: path, problem: .format(.empty)) }
    return .end
  }

  /// What was never taken in. Reads the file for it, from any thread.
  package func unread(_ rest: UnreadAudience) -> AudienceUnread {
    let line = rest.line ?? start.line
    guard let byteCount else { return AudienceUnread(line: line) }
    let offset = input.offset(ofLine: line, from: rest.mark ?? start)
    var unread = AudienceUnread(line: line, byteCount: max(0, byteCount - offset), fileByteCount: byteCount)
    let readLineCount = Int(clamping: line) - Int(clamping: header.firstLine)
    let readByteCount = offset - header.byteCount
    if readLineCount > 0, readByteCount > 0 {
      unread.estimatedLineCount = Int((Double(unread.byteCount ?? 0) * Double(readLineCount) / Double(readByteCount)).rounded(.up))
    }
    return unread
  }

  private static func detectHeader(_ input: AudienceInput) throws(AudienceError) -> AudienceHeader {
    while true {
      do throws(AudienceFormatError) {
        // A file is looked at as far as a header can reach, so that one without a row is noticed; a pipe no further than it must, as it may pause.
        let isEnough = input.byteCount == nil || input.isAtEnd || input.count > AudienceReader.lineByteLimit
        if isEnough, let header = try AudienceHeader.detect(unsafe Array(input.bytes), isWhole: input.isAtEnd) { return header }
      } catch {
        throw AudienceError(path: input.path, problem: .format(error))
      }
      try input.readMore()
    }
  }
}

/// The descriptor and the block that is read into. Used by one thread at a time, as its owner.
@safe private final class AudienceInput {
  let path: String
  let byteCount: Int?
  private let descriptor: Int32
  private let block: UnsafeMutableRawBufferPointer
  /// How much of the block is filled.
  private(set) var count = 0
  private(set) var isAtEnd = false

  init(path: String, blockByteCount: Int) throws(AudienceError) {
    self.path = path
    descriptor = path == "-" ? STDIN_FILENO : unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw AudienceError(path: path, problem: .cannotOpen(Self.reason(errno))) }
    var status = stat()
    let isKnown = unsafe fstat(descriptor, &status) == 0
    byteCount = isKnown && status.st_mode & S_IFMT == S_IFREG ? Int(status.st_size) : nil
    unsafe block = .allocate(byteCount: blockByteCount, alignment: 64)
    // From here on everything is initialised, so that deinit gives it back when this throws.
    if isKnown, status.st_mode & S_IFMT == S_IFDIR { throw AudienceError(path: path, problem: .isFolder) }
  }

  deinit {
    if descriptor != STDIN_FILENO { close(descriptor) }
    unsafe block.deallocate()
  }

  var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(rebasing: block[..<count]) }

  func discardAll() { count = 0 }

  /// Forgets what was read, and goes on at `offset`.
  func seek(to offset: UInt64) throws(AudienceError) {
    guard let place = off_t(exactly: offset), lseek(descriptor, place, SEEK_SET) == place else {
      throw AudienceError(path: path, problem: .cannotRead(Self.reason(errno)))
    }
    count = 0
    isAtEnd = false
  }

  /// Where this line begins, in bytes. Leaves the place of reading alone.
  func offset(ofLine line: UInt64, from mark: AudienceMark) -> Int {
    var (offset, left) = (Int(clamping: mark.offset), line > mark.line ? line - mark.line : 0)
    let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 16)
    defer { unsafe piece.deallocate() }
    while left > 0 {
      let got = unsafe pread(descriptor, piece.baseAddress, piece.count, off_t(offset))
      guard got > 0 else { break }
      var used = 0
      while left > 0, let end = unsafe piece[used..<got].firstIndex(of: UInt8(ascii: "\n")) {
        used = end + 1
        left -= 1
      }
      offset += left > 0 ? got : used
    }
    return offset
  }

  /// Whether a read would return at once: always for a file.
  var isReadable: Bool {
    if byteCount != nil { return true }
    var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return unsafe poll(&wait, 1, 0) != 0
  }

  /// Reads once, behind what the block holds, or finds the end.
  func readMore() throws(AudienceError) {
    while true {
      let room = unsafe UnsafeMutableRawBufferPointer(rebasing: block[count...])
      let got = unsafe read(descriptor, room.baseAddress, room.count)
      if got > 0 {
        count += got
        return
      }
      if got == 0 {
        isAtEnd = true
        return
      }
      if errno == EAGAIN {
        // Somebody else made our standard input non-blocking.
        var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        _ = unsafe poll(&wait, 1, -1)
      } else if errno != EINTR {
        throw AudienceError(path: path, problem: .cannotRead(Self.reason(errno)))
      }
    }
  }

  private static func reason(_ code: Int32) -> String {
    unsafe String(cString: strerror(code))
  }
}
