internal import Glibc
internal import PushTransport
internal import Synchronization

/// A token file that a service keeps. Errors call it "the audience".
package struct KeptAudience: Hashable, Sendable {
  package let path: String
  /// What the file must have at least: with fewer bytes, it has lost some of its lines.
  package let byteCount: Int
  /// Numbers the rows behind the header from 1, however many lines they span: for a file that was
  /// made of another one, whose lines they are.
  package let numbersRows: Bool

  package init(path: String, byteCount: Int, numbersRows: Bool) {
    (self.path, self.byteCount, self.numbersRows) = (path, byteCount, numbersRows)
  }
}

/// A token file on disk or standard input, read in blocks. ``AudienceReader`` interprets them.
@safe package final class AudienceFile: AudienceSource, @unchecked Sendable {
  // Sync: one task at a time fills chunks from it. Other threads may read only the progress, which
  // is atomic.

  /// 512 KiB: large enough that the cost of system calls is negligible, small enough for the cache.
  private static let blockByteCount = 512 * 1024
  /// The most blocks that one call reads, so that the caller can check for cancellation.
  private static let blocksPerCall = 2

  /// `-` for standard input.
  package let path: String
  /// The format of the file, by its first line.
  package let header: AudienceHeader
  /// The size of the file; nil for a pipe or a terminal.
  package let byteCount: Int?
  /// How many bytes must be read: those that it had when it was made, or opened.
  private let wholeByteCount: Int
  /// How many bytes of it have gone into chunks, including the header. For the progress.
  package var consumedByteCount: Int { consumed.load(ordering: .relaxed) }

  private let consumed = Atomic<Int>(0)
  /// The number of the line after the header.
  private let firstLine: UInt64
  /// Where the entries begin: after the header, or where reading was resumed.
  private let start: AudienceMark
  private let input: AudienceInput
  private var reader: AudienceReader
  private var position: Int
  private var isFinished = false
  private var hasEntries = false
  /// Some of its lines are passed over.
  private let isSelected: Bool
  /// See ``AudienceChunk/fileOffset``.
  private let isReadAgain: Bool
  /// See ``AudienceChunk/mark``.
  private var mark: AudienceMark

  /// Opens the file and reads its beginning; waits for it in a pipe.
  ///
  /// - Parameters:
  ///   - mark: Where to continue in a file that was read before; nil: after the header.
  ///   - readsHeaders: See ``AudienceReader``.
  ///   - isReadAgain: It is the same regular file when the campaign is resumed, and whoever resumes
  ///     it reads the tokens of what was left: see ``EngineJournal/readTokens(of:_:)``.
  ///   - makeRenderer: Called once with the header. Returns the renderer of each line's payload;
  ///     nil: one payload for all. Its errors are rethrown.
  ///   - selection: Called once with the header; see ``AudienceReader``.
  package convenience init(
    path: String, from mark: AudienceMark? = nil, readsHeaders: Bool = false, isReadAgain: Bool = false,
    renderer: (AudienceHeader) throws -> PayloadRenderer? = { _ in nil },
    selection: (AudienceHeader) -> RowSelection? = { _ in nil }
  ) throws {
    try self.init(
      KeptAudience(path: path, byteCount: 0, numbersRows: false), name: path, from: mark, readsHeaders: readsHeaders,
      isReadAgain: isReadAgain, renderer: renderer, selection: selection)
  }

  /// Opens a file of a service in the same way.
  package convenience init(
    _ kept: KeptAudience, from mark: AudienceMark? = nil, readsHeaders: Bool = false,
    renderer: (AudienceHeader) throws -> PayloadRenderer? = { _ in nil },
    selection: (AudienceHeader) -> RowSelection? = { _ in nil }
  ) throws {
    try self.init(
      kept, name: nil, from: mark, readsHeaders: readsHeaders, isReadAgain: false, renderer: renderer,
      selection: selection)
  }

  private init(
    _ kept: KeptAudience, name: String?, from mark: AudienceMark?, readsHeaders: Bool, isReadAgain: Bool,
    renderer makeRenderer: (AudienceHeader) throws -> PayloadRenderer?, selection: (AudienceHeader) -> RowSelection?
  ) throws {
    path = kept.path
    input = try AudienceInput(path: kept.path, name: name, blockByteCount: Self.blockByteCount)
    byteCount = input.byteCount
    self.isReadAgain = isReadAgain && kept.path != "-" && input.byteCount != nil
    wholeByteCount = max(kept.byteCount, (input.byteCount ?? 0) - input.firstOffset)
    header = try Self.detectHeader(input)
    firstLine = kept.numbersRows && header.isCSV ? 1 : header.firstLine
    let first = AudienceMark(offset: UInt64(header.byteCount), line: firstLine)
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
    let rows = selection(header)
    isSelected = rows != nil
    reader = AudienceReader(
      header, renderer: try makeRenderer(header), readsHeaders: readsHeaders, firstLine: self.mark.line,
      numbersRows: kept.numbersRows, selection: rows)
    consumed.store(Int(clamping: self.mark.offset), ordering: .relaxed)
  }

  /// Empties `chunk` and puts the next entries into it. It never waits: a pipe that pauses gives a
  /// part of a chunk, or nothing yet. Blocks without an entry (blank lines, the rest of an overlong
  /// line) give `nothingFor(.zero)`.
  ///
  /// - Throws: ``AudienceError``, also when the whole file had no entry, a line has no end, or the
  ///   file ends before it should.
  package func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    let start = restartOffset
    if let start, let restart = reader.restart { mark = AudienceMark(offset: UInt64(start), line: restart.line) }
    chunk.mark = mark
    var hasOpenEnd = false
    var blockCount = 0
    while !isFinished {
      if let line = reader.endlessLine {
        if chunk.count == 0 { throw AudienceError(path: input.name, problem: .endlessLine(line)) }
        break
      }
      if position < input.count || reader.hasLines {
        let used = unsafe reader.read(UnsafeRawBufferPointer(rebasing: input.bytes[position...]), into: chunk)
        position += used
        consumed.add(used, ordering: .relaxed)
        if position < input.count || reader.hasLines { break }
      } else if input.isAtEnd {
        let count = chunk.count
        isFinished = reader.finish(into: chunk)
        hasOpenEnd = chunk.count > count
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
    if isReadAgain, !hasOpenEnd, let start, let end = restartOffset { chunk.noteLines(start..<end) }
    hasEntries = hasEntries || chunk.count > 0
    if chunk.count > 0 { return .entries }
    if !isFinished { return .nothingYet }
    try demand(consumedByteCount)
    if !hasEntries, !isSelected { throw AudienceError(path: input.name, problem: .format(.empty)) }
    return .end
  }

  /// Where the next line begins; nil in the middle of an overlong one.
  private var restartOffset: Int? { reader.restart.map { consumedByteCount - $0.carriedByteCount } }

  /// The tokens of `count` lines, 32 bytes each; see ``AudienceChunk/fileOffset``. Does not move
  /// the place of reading.
  package func tokens(at offset: UInt64, count: Int) throws(AudienceError) -> [UInt8] {
    let lines = try input.bytes(at: offset, count: count * AudienceReader.bareLineByteCount)
    guard let tokens = AudienceReader.bareTokens(lines), lines.count == count * AudienceReader.bareLineByteCount else {
      throw AudienceError(path: input.name, problem: .noTokens(at: offset))
    }
    return tokens
  }

  /// - Throws: ``AudienceError`` if lines of the file are lost.
  package func demandWhole() throws(AudienceError) {
    if let byteCount { try demand(byteCount) }
  }

  private func demand(_ byteCount: Int) throws(AudienceError) {
    guard byteCount < wholeByteCount else { return }
    throw AudienceError(path: input.name, problem: .endsEarly(byteCount, of: wholeByteCount))
  }

  /// The part that was never taken in. Reads the file for it, from any thread.
  package func unread(_ rest: UnreadAudience) -> AudienceUnread {
    let line = rest.line ?? start.line
    guard let byteCount else { return AudienceUnread(line: line) }
    let offset = input.offset(ofLine: line, from: rest.mark ?? start)
    var unread = AudienceUnread(line: line, byteCount: max(0, byteCount - offset), fileByteCount: byteCount)
    let readLineCount = Int(clamping: line) - Int(clamping: firstLine)
    let readByteCount = offset - header.byteCount
    if readLineCount > 0, readByteCount > 0 {
      unread.estimatedLineCount = Int(
        (Double(unread.byteCount ?? 0) * Double(readLineCount) / Double(readByteCount)).rounded(.up))
    }
    return unread
  }

  private static func detectHeader(_ input: AudienceInput) throws(AudienceError) -> AudienceHeader {
    while true {
      do throws(AudienceFormatError) {
        // A file is read as far as a header can reach, so that one without a row is noticed. A pipe
        // may pause, so it is read no further than necessary.
        let isEnough = input.byteCount == nil || input.isAtEnd || input.count > AudienceReader.lineByteLimit
        if isEnough, let header = try AudienceHeader.detect(unsafe Array(input.bytes), isWhole: input.isAtEnd) {
          return header
        }
      } catch { throw AudienceError(path: input.name, problem: .format(error)) }
      try input.readMore()
    }
  }
}

/// The descriptor and the block that is read into. Used by one thread at a time, like its owner.
@safe private final class AudienceInput {
  /// The file's name in errors; see ``AudienceError/path``.
  let name: String?
  let byteCount: Int?
  /// Where reading begins: another process may have read the beginning of the standard input.
  let firstOffset: Int
  private let descriptor: Int32
  private let block: UnsafeMutableRawBufferPointer
  /// How much of the block is filled.
  private(set) var count = 0
  private(set) var isAtEnd = false

  init(path: String, name: String?, blockByteCount: Int) throws(AudienceError) {
    self.name = name
    descriptor = path == "-" ? STDIN_FILENO : unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw AudienceError(path: name, problem: .cannotOpen(SystemCall.reason(errno))) }
    var status = stat()
    let isKnown = unsafe fstat(descriptor, &status) == 0
    byteCount = isKnown && status.st_mode & S_IFMT == S_IFREG ? Int(status.st_size) : nil
    firstOffset = max(0, lseek(descriptor, 0, SEEK_CUR))
    unsafe block = .allocate(byteCount: blockByteCount, alignment: 64)
    // Everything is initialised from here on, so deinit releases it when this throws.
    if isKnown, status.st_mode & S_IFMT == S_IFDIR { throw AudienceError(path: name, problem: .isFolder) }
  }

  deinit {
    if descriptor != STDIN_FILENO { close(descriptor) }
    unsafe block.deallocate()
  }

  var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(rebasing: block[..<count]) }

  func discardAll() { count = 0 }

  /// Drops what was read, and continues at `offset`.
  func seek(to offset: UInt64) throws(AudienceError) {
    guard let place = off_t(exactly: offset), lseek(descriptor, place, SEEK_SET) == place else {
      throw AudienceError(path: name, problem: .cannotRead(SystemCall.reason(errno)))
    }
    count = 0
    isAtEnd = false
  }

  /// The byte offset of a line. Does not move the place of reading.
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

  /// So many bytes from `offset` on, or fewer at the end of the file. Does not move the place of
  /// reading.
  func bytes(at offset: UInt64, count: Int) throws(AudienceError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    var filled = 0
    while filled < count {
      let got = unsafe bytes.withUnsafeMutableBytes { memory in
        unsafe pread(descriptor, memory.baseAddress.map { unsafe $0 + filled }, count - filled, off_t(offset) + filled)
      }
      guard got >= 0 || errno == EINTR else {
        throw AudienceError(path: name, problem: .cannotRead(SystemCall.reason(errno)))
      }
      if got == 0 { break }
      filled += max(0, got)
    }
    return Array(bytes[..<filled])
  }

  /// Whether a read would return at once. Always true for a file.
  var isReadable: Bool {
    if byteCount != nil { return true }
    var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return unsafe poll(&wait, 1, 0) != 0
  }

  /// Reads once, after what the block holds, or finds the end.
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
        // Another process has made the standard input non-blocking.
        var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        _ = unsafe poll(&wait, 1, -1)
      } else if errno != EINTR {
        throw AudienceError(path: name, problem: .cannotRead(SystemCall.reason(errno)))
      }
    }
  }
}
