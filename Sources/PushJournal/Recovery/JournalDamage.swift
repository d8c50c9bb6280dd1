/// A place in a segment that a crash does not explain.
package struct JournalDamage: Hashable, Sendable, CustomStringConvertible {
  package enum Problem: Hashable, Sendable {
    /// Bytes that begin no LZ4 frame.
    case noFrame
    /// The file ends in the middle of a frame.
    case cutShort
    /// An LZ4 frame, but none that this journal writes.
    case foreignFrame
    /// More than a frame of this journal can have.
    case tooLarge
    /// LZ4 refuses the frame: its word for the reason (a checksum, most often).
    case unreadable(String)
    /// Sound LZ4, but no sound records in it.
    case malformed
    /// A version of the format that this program does not know.
    case version(UInt16)
    /// The first frame of a segment has no segment header, or another has one.
    case noSegmentHeader
    /// The header has another number than the file's name.
    case wrongNumber(UInt64)
    /// A frame of another journal.
    case otherJournal
    /// Records that must have been before this place are not there.
    case missing(Range<UInt64>)
    /// Records that have been before.
    case repeated(first: UInt64)
  }

  /// The file's name.
  package let segment: String
  /// Where in the (compressed) file.
  package let offset: Int
  package let problem: Problem

  /// The version of the format that this program reads and writes.
  package static var knownVersion: UInt16 { SegmentHeader.version }

  package var description: String { "\(segment), byte \(offset): \(problem)" }
}

extension JournalDamage.Problem: CustomStringConvertible {
  package var description: String {
    switch self {
    case .noFrame: "no LZ4 frame begins here"
    case .cutShort: "the file ends in the middle of a frame"
    case .foreignFrame: "an LZ4 frame, but none of a journal"
    case .tooLarge: "a frame larger than any of a journal"
    case .unreadable(let reason): "the frame cannot be decompressed (\(reason))"
    case .malformed: "the frame holds no sound records"
    case .version(let version): "version \(version) of the format, this program knows \(SegmentHeader.version)"
    case .noSegmentHeader: "the segment header is not where it must be"
    case .wrongNumber(let number): "the header says segment \(number)"
    case .otherJournal: "the frame belongs to another journal"
    case .missing(let records): "records \(records.lowerBound) to \(records.upperBound - 1) are missing before this place"
    case .repeated(let first): "records from \(first) on are here again"
    }
  }

  /// Whether a crash in the middle of writing can leave this at the end of the last segment. What has sound checksums was written so.
  var canBeTorn: Bool {
    switch self {
    case .noFrame, .cutShort, .foreignFrame, .tooLarge, .unreadable: true
    case .malformed, .version, .noSegmentHeader, .wrongNumber, .otherJournal, .missing, .repeated: false
    }
  }
}
