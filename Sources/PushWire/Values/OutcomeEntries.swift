/// Notifications that got the same outcome together, as a service keeps them: which, to whom, and
/// what else is known of each.
///
/// ``bytes`` is a form for years: each entry has a byte of flags and then, where the flags say so,
/// its line (absolute, or the distance to the one before; otherwise it is the next one), the length
/// of its token (otherwise 32), the token, and since when the device is gone. So the usual entry
/// takes 33 bytes, and the entries of several calls can stand behind each other.
package struct OutcomeEntries: Hashable, Sendable {
  package private(set) var lines: [UInt64] = []
  package private(set) var bytes: [UInt8] = []

  private enum Flag {
    static let absolute: UInt8 = 1
    static let distance: UInt8 = 2
    static let doubted: UInt8 = 4
    static let gone: UInt8 = 8
    static let length: UInt8 = 16
    /// In the place of the token is the text of a malformed one.
    static let text: UInt8 = 32
    /// That text is the identifier of a channel, of a broadcast.
    static let channel: UInt8 = 64
  }

  /// What is kept of a malformed token.
  package static let textByteCountLimit = 256

  package init() {}

  package init(capacity: Int) {
    lines.reserveCapacity(capacity)
    bytes.reserveCapacity(capacity * (TokenBytes.usualByteCount + 1))
  }

  /// One notification.
  ///
  /// - Parameters:
  ///   - token: in hexadecimal digits, or what stands in its place.
  ///   - goneSince: in milliseconds since 1970.
  package init(line: UInt64, token: String, goneSince: UInt64?, isDoubted: Bool) {
    if let known = try? TokenBytes(parsing: token) {
      unsafe known.withUnsafeBytes { unsafe append(line: line, token: $0, goneSince: goneSince, isDoubted: isDoubted) }
    } else {
      let text = Array(token.utf8.prefix(Self.textByteCountLimit))
      unsafe text.withUnsafeBytes {
        unsafe append(line: line, token: $0, goneSince: goneSince, isDoubted: isDoubted, isText: true)
      }
    }
  }

  package var count: Int { lines.count }

  /// The same, as broadcasts to a channel.
  package func broadcast(to channel: String) -> OutcomeEntries {
    var (entries, reader) = (OutcomeEntries(), Reader(bytes))
    let text = Array(channel.utf8.prefix(Self.textByteCountLimit))
    while let entry = try? reader.next() {
      unsafe text.withUnsafeBytes {
        unsafe entries.append(line: entry.line, token: $0, isDoubted: entry.isDoubted, isText: true, isChannel: true)
      }
    }
    return entries
  }

  /// The same notifications as lines of others.
  ///
  /// - Parameter name: of a line: to whom it belongs, its line there, and whether another copy of
  ///   it may have been sent.
  package func renamed<Owner: Hashable>(
    _ name: (UInt64) -> (owner: Owner, line: UInt64, isDoubted: Bool)
  ) -> [(owner: Owner, entries: OutcomeEntries)] {
    var (found, reader): ([(owner: Owner, entries: OutcomeEntries)], Reader) = ([], Reader(bytes))
    while let entry = try? reader.next() {
      let (owner, line, isDoubted) = name(entry.line)
      if found.last?.owner != owner { found.append((owner, OutcomeEntries())) }
      unsafe entry.token.withUnsafeBytes {
        unsafe found[found.count - 1].entries.append(
          line: line, token: $0, goneSince: entry.goneSince, isDoubted: isDoubted || entry.isDoubted,
          isText: entry.isText, isChannel: entry.isChannel)
      }
    }
    return found
  }

  /// - Parameter token: at most 100 bytes; of a text, 256.
  package mutating func append(
    line: UInt64, token: UnsafeRawBufferPointer, goneSince: UInt64? = nil, isDoubted: Bool = false,
    isText: Bool = false, isChannel: Bool = false
  ) {
    var flags: UInt8 = (isDoubted ? Flag.doubted : 0) | (isText ? Flag.text : 0)
    if isChannel { flags |= Flag.channel }
    var distance: UInt64?
    if let last = lines.last, line > last {
      if line != last + 1 { (flags, distance) = (flags | Flag.distance, line - last) }
    } else {
      (flags, distance) = (flags | Flag.absolute, line)
    }
    let isUsual = token.count == TokenBytes.usualByteCount
    if !isUsual { flags |= Flag.length }
    if goneSince != nil { flags |= Flag.gone }
    bytes.append(flags)
    if let distance { append(distance) }
    if !isUsual { append(UInt64(token.count)) }
    unsafe bytes.append(contentsOf: token)
    if let goneSince { append(goneSince) }
    lines.append(line)
  }

  private mutating func append(_ number: UInt64) {
    var rest = number
    while rest > 0x7F {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    bytes.append(UInt8(rest))
  }

  /// One of them.
  package struct Entry: Hashable, Sendable {
    package var line: UInt64
    /// The token, or the text of a malformed one.
    package var token: ArraySlice<UInt8>
    package var isText: Bool
    /// That text is the identifier of a channel, of a broadcast.
    package var isChannel: Bool
    /// Another copy of it may have been sent.
    package var isDoubted: Bool
    /// In milliseconds since 1970.
    package var goneSince: UInt64?
  }

  /// Reads entries one after the other.
  package struct Reader: Sendable {
    private let bytes: [UInt8]
    private var place = 0
    private var line: UInt64 = 0

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// - Returns: nil at the end.
    /// - Throws: ``Damage``.
    package mutating func next() throws(Damage) -> Entry? {
      guard place < bytes.count else { return nil }
      let flags = bytes[place]
      place += 1
      if flags & Flag.absolute != 0 {
        line = try number()
      } else {
        let distance = flags & Flag.distance != 0 ? try number() : 1
        let (next, overflows) = line.addingReportingOverflow(distance)
        guard !overflows else { throw Damage() }
        line = next
      }
      let isText = flags & Flag.text != 0
      let count = flags & Flag.length != 0 ? try number() : UInt64(TokenBytes.usualByteCount)
      let limit = isText ? OutcomeEntries.textByteCountLimit : TokenBytes.byteCountLimit
      guard count <= UInt64(limit), Int(count) <= bytes.count - place else { throw Damage() }
      let token = bytes[place..<place + Int(count)]
      place += Int(count)
      return Entry(
        line: line, token: token, isText: isText, isChannel: flags & Flag.channel != 0,
        isDoubted: flags & Flag.doubted != 0, goneSince: flags & Flag.gone != 0 ? try number() : nil)
    }

    private mutating func number() throws(Damage) -> UInt64 {
      var (value, shift) = (UInt64(0), UInt64(0))
      while true {
        guard place < bytes.count, shift < 64 else { throw Damage() }
        let byte = bytes[place]
        place += 1
        guard shift < 63 || byte <= 1 else { throw Damage() }
        value |= UInt64(byte & 0x7F) << shift
        if byte & 0x80 == 0 { return value }
        shift += 7
      }
    }
  }

  /// The bytes are no entries.
  package struct Damage: Error {}
}
