package import PushTransport
package import PushWire

/// One line of a token file in a chunk.
package struct AudienceEntry: Sendable {
  package enum Kind: UInt8, Sendable {
    /// A token, and with a template its payload.
    case ready
    /// The line, or its `token` column, is not a device token. ``AudienceChunk/text(of:)`` returns
    /// the text in its place.
    case malformedToken
    /// A CSV record with the wrong number of columns, or with quotes that RFC 4180 does not allow.
    case malformedRow
    /// A value for a placeholder is not UTF-8.
    case malformedText
    /// Its `apns-id` is not a UUID.
    case malformedIdentifier
    /// Its `collapse-id` cannot be a header's value.
    case malformedCollapseIdentifier
    /// Longer than ``AudienceReader/lineByteLimit``. It was skipped and never held in memory.
    case overlongLine
    /// The token is valid, but the payload made for it is above the limit.
    case payloadTooLarge
    /// The device is known to be gone.
    case suppressed
    /// Its user has got enough lately.
    case capped
    /// Its user is to get nothing.
    case holdout

    /// The outcome of a line that is not sent; nil if it is.
    var outcome: Outcome? { withheld ?? rejection.map(Outcome.rejected) }

    /// The outcome of a line that could be sent, and must not be.
    var withheld: Outcome? {
      switch self {
      case .suppressed: .suppressed
      case .capped: .capped
      case .holdout: .holdout
      default: nil
      }
    }

    /// Why a line cannot be sent; nil if it can, or must not be.
    package var rejection: Rejection? {
      switch self {
      case .ready, .suppressed, .capped, .holdout: nil
      case .malformedToken: .malformedToken
      case .payloadTooLarge: .payloadTooLarge
      case .malformedRow: .unusableLine(.row)
      case .malformedText: .unusableLine(.text)
      case .malformedIdentifier: .unusableLine(.identifier)
      case .malformedCollapseIdentifier: .unusableLine(.collapseIdentifier)
      case .overlongLine: .unusableLine(.overlong)
      }
    }
  }

  /// The line in the file on which this entry begins, from 1. The first field, because a ring reads
  /// it from memory.
  package let line: UInt64
  let payloadOffset: UInt32
  let payloadByteCount: UInt32
  let tokenOffset: UInt32
  /// 1…100 bytes of token. For a malformed entry, up to 100 bytes of the text in its place.
  let tokenByteCount: UInt8
  package internal(set) var kind: Kind
  /// The kind of the entry's own headers, which lie after the token.
  var headersCode: UInt8 = 0
}

/// A reusable piece of an audience: about a thousand entries with their tokens, and with a template
/// their payloads, in flat memory.
///
/// One chunk is filled, handed to the app, used and filled again, so reading millions of lines
/// allocates nothing.
@safe package final class AudienceChunk: @unchecked Sendable {
  // Sync: a chunk has one user at a time. The one that fills it hands it over by a call or message
  // that orders memory, and does not access it until it comes back.

  /// How many entries fit, unless payloads fill the chunk first.
  package static let defaultEntryLimit = 1024
  /// 1 MiB. With payloads of 1 KiB, as many entries fit as without.
  package static let defaultPayloadCapacity = 1 << 20

  package let entryLimit: Int
  /// 0 in a chunk for campaigns with one payload for all.
  package let payloadCapacity: Int
  let entries: UnsafeMutablePointer<AudienceEntry>
  let tokens: UnsafeMutableRawPointer
  let payloads: UnsafeMutableRawPointer
  private let fill: UnsafeMutablePointer<Fill>
  /// A mark in the audience. Reading from there gives this chunk's entries again, perhaps after
  /// some of earlier chunks.
  package var mark = AudienceMark(offset: 0, line: 1)
  /// The origin of recovered entries: neighbours in one lane's ring. Nil: read from the audience.
  var origin: Origin?
  /// Whether the entries may have been sent before. An audience that says so has counted the copies
  /// itself. The reader counts those of recovered entries.
  package var fate = RecoveredRun.Fate.unsent

  struct Origin {
    let lane: UInt64
    /// The position of the first entry in that lane's ring.
    let position: UInt64
  }

  /// The number of entries in the chunk.
  package internal(set) var count: Int {
    get { unsafe fill.pointee.count }
    set { unsafe fill.pointee.count = newValue }
  }
  /// How many of them are ``AudienceEntry/Kind-swift.enum/ready``.
  package internal(set) var readyCount: Int {
    get { unsafe fill.pointee.readyCount }
    set { unsafe fill.pointee.readyCount = newValue }
  }
  var tokenEnd: Int {
    get { unsafe fill.pointee.tokenEnd }
    set { unsafe fill.pointee.tokenEnd = newValue }
  }
  var payloadEnd: Int {
    get { unsafe fill.pointee.payloadEnd }
    set { unsafe fill.pointee.payloadEnd = newValue }
  }

  /// How many entries have a token of 32 bytes and nothing of their own. Only the audience's usual
  /// ways of filling a chunk count them.
  var plainCount: Int {
    get { unsafe fill.pointee.plainCount }
    set { unsafe fill.pointee.plainCount = newValue }
  }
  /// Every entry is ready, has a token of 32 bytes, and nothing of its own. So the tokens follow
  /// each other without gaps, and each entry takes one block of a ring.
  var isPlain: Bool { plainCount == count && readyCount == count }

  /// Where the first entry's line begins in a token file that is there again when the campaign is
  /// resumed, if all lines are nothing but the 64 digits of a token and a line end, so that those
  /// of the other entries follow from it. The journal keeps it in place of the tokens. Nil: the
  /// journal keeps the tokens.
  private(set) var fileOffset: UInt64?

  /// The entries were read from this part of such a file, and nothing else was.
  ///
  /// A line with a token of 32 bytes has at least 64 digits and its end. So if there are no more
  /// bytes than that, no line has anything else.
  func noteLines(_ part: Range<Int>) {
    let isBare = isPlain && part.count == count * AudienceReader.bareLineByteCount
    fileOffset = isBare ? UInt64(part.lowerBound) : nil
  }

  /// The fields that change with every entry. They have memory of their own, because the checks for
  /// exclusive access to an object's variables took a tenth of the reading.
  private struct Fill {
    var count = 0
    var readyCount = 0
    var tokenEnd = 0
    var payloadEnd = 0
    var plainCount = 0
  }

  /// - Parameters:
  ///   - payloadCapacity: In bytes; 0 when the payload is the same for all. With a template, at
  ///     least the payload limit.
  package init(entryLimit: Int = AudienceChunk.defaultEntryLimit, payloadCapacity: Int = 0) {
    precondition(entryLimit > 0 && payloadCapacity >= 0 && payloadCapacity <= UInt32.max, "a chunk of no size")
    (self.entryLimit, self.payloadCapacity) = (entryLimit, payloadCapacity)
    unsafe entries = .allocate(capacity: entryLimit)
    unsafe fill = .allocate(capacity: 1)
    unsafe fill.initialize(to: Fill())
    unsafe tokens = .allocate(
      byteCount: entryLimit * (AudienceReader.textByteLimit + RingRecord.OwnHeaders.byteCountLimit), alignment: 16)
    unsafe payloads = .allocate(byteCount: max(1, payloadCapacity), alignment: 16)
  }

  deinit {
    unsafe entries.deallocate()
    unsafe fill.deallocate()
    unsafe tokens.deallocate()
    unsafe payloads.deallocate()
  }

  package func removeAll() {
    count = 0
    readyCount = 0
    tokenEnd = 0
    payloadEnd = 0
    plainCount = 0
    origin = nil
    fate = .unsent
    fileOffset = nil
  }

  package subscript(index: Int) -> AudienceEntry {
    precondition(index >= 0 && index < count, "no such entry in the chunk")
    return unsafe entries[index]
  }

  /// The token's bytes, 1…100. Only for an entry of this chunk that is ready or whose payload is
  /// too large. Valid until the chunk is filled again.
  package func token(of entry: AudienceEntry) -> UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(start: tokens + Int(entry.tokenOffset), count: Int(entry.tokenByteCount))
  }

  /// The tokens of these entries, 32 bytes each; nil unless the chunk is plain. Valid until the
  /// chunk is filled again.
  func plainTokens(_ range: Range<Int>) -> UnsafeRawBufferPointer? {
    guard isPlain else { return nil }
    precondition(range.lowerBound >= 0 && range.upperBound <= count, "no such entries in the chunk")
    return unsafe UnsafeRawBufferPointer(
      start: tokens + range.lowerBound * TokenBytes.usualByteCount, count: range.count * TokenBytes.usualByteCount)
  }

  /// The entry's own headers. Valid until the chunk is filled again.
  package func ownHeaders(of entry: AudienceEntry) -> RingRecord.OwnHeaders {
    unsafe RingRecord.OwnHeaders(
      code: entry.headersCode, start: UnsafeRawPointer(tokens + Int(entry.tokenOffset) + Int(entry.tokenByteCount)))
  }

  /// The payload made for this entry; empty when the campaign has one payload for all. Valid until
  /// the chunk is filled again.
  package func payload(of entry: AudienceEntry) -> UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(start: payloads + Int(entry.payloadOffset), count: Int(entry.payloadByteCount))
  }

  /// The payload of an entry as text.
  package func payloadText(of entry: AudienceEntry) -> String {
    unsafe String(decoding: payload(of: entry), as: UTF8.self)
  }

  /// The text that the report shows for an entry that cannot be sent: the token in hexadecimal
  /// digits, or the beginning of the text in its place.
  package func text(of entry: AudienceEntry) -> String {
    let bytes = unsafe token(of: entry)
    switch entry.kind {
    case .ready, .payloadTooLarge, .suppressed, .capped, .holdout, .malformedIdentifier, .malformedCollapseIdentifier:
      return unsafe Digest.hexadecimal(bytes)
    case .malformedToken, .malformedRow, .malformedText, .overlongLine:
      return unsafe String(decoding: bytes, as: UTF8.self)
    }
  }
}
