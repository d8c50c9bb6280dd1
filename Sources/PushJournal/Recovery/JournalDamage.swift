/// A place in a segment that a crash does not explain.
package struct JournalDamage: Hashable, Sendable, CustomStringConvertible {
  package enum Problem: Hashable, Sendable {
    /// No LZ4 frame begins here.
    case noFrame
    /// The file ends in the middle of a frame.
    case cutShort
    /// An LZ4 frame that this journal does not write.
    case foreignFrame
    /// The frame is larger than any frame of a journal.
    case tooLarge
    /// LZ4 cannot decompress the frame. The text is LZ4's reason, most often a checksum.
    case unreadable(String)
    /// A sound LZ4 frame without sound records.
    case malformed
    /// A version of the format that this program does not support.
    case version(UInt16)
    /// The first frame of a segment has no segment header, or another frame has one.
    case noSegmentHeader
    /// The header's segment number differs from the file's name.
    case wrongNumber(UInt64)
    /// The frame belongs to another journal.
    case otherJournal
    /// Records that should stand before this place are missing.
    case missing(Range<UInt64>)
    /// Records that have already stood before this place.
    case repeated(first: UInt64)
  }

  /// The file's name.
  package let segment: String
  /// The byte offset in the compressed file.
  package let offset: Int
  package let problem: Problem

  package var description: String { "\(segment), byte \(offset): \(problem)" }
}

extension JournalDamage.Problem: CustomStringConvertible {
  package var description: String {
    switch self {
    case .noFrame: "no LZ4 frame begins here"
    case .cutShort: "the file ends in the middle of a frame"
    case .foreignFrame: "an LZ4 frame that is not a journal's"
    case .tooLarge: "the frame is larger than any frame of a journal"
    case .unreadable(let reason): "the frame cannot be decompressed (\(reason))"
    case .malformed: "the frame holds no sound records"
    case .version(let version): "format version \(version); this program supports version \(SegmentHeader.version)"
    case .noSegmentHeader: "the segment header is missing or misplaced"
    case .wrongNumber(let number): "the header says segment \(number)"
    case .otherJournal: "the frame belongs to another journal"
    case .missing(let records):
      "records \(records.lowerBound) to \(records.upperBound - 1) are missing before this place"
    case .repeated(let first): "records from \(first) on are repeated"
    }
  }

  /// Whether a crash during a write can leave this at the end of the last segment. Frames with
  /// sound checksums were written as they are.
  var canBeTorn: Bool {
    switch self {
    case .noFrame, .cutShort, .foreignFrame, .tooLarge, .unreadable: true
    case .malformed, .version, .noSegmentHeader, .wrongNumber, .otherJournal, .missing, .repeated: false
    }
  }
}
