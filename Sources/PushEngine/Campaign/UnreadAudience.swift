/// Where reading an audience stopped before its end.
package struct UnreadAudience: Hashable, Sendable {
  /// A place at or before ``line``; nil: the first line of the audience.
  package var mark: AudienceMark?
  /// The number of the first line that was never taken in; nil: the audience was not read at all.
  package var line: UInt64?

  package init(mark: AudienceMark? = nil, line: UInt64? = nil) { (self.mark, self.line) = (mark, line) }

  /// What is left from this entry of the chunk on.
  init(_ chunk: AudienceChunk, from index: Int) {
    // The last line of a record that spans lines is not known here. The record counts as one line.
    let line = index < chunk.count ? chunk[index].line : chunk[chunk.count - 1].line + 1
    self.init(mark: chunk.mark, line: line)
  }
}

/// The part of a token file that was never taken in.
package struct AudienceUnread: Hashable, Sendable {
  /// The number of the first such line.
  package var line: UInt64
  /// The bytes from that line to the end of the file, and of the whole file; nil for a pipe.
  package var byteCount: Int?
  package var fileByteCount: Int?
  /// The estimated number of lines in these bytes, by the average of the lines that were read; nil
  /// if none was.
  package var estimatedLineCount: Int?

  package init(line: UInt64, byteCount: Int? = nil, fileByteCount: Int? = nil, estimatedLineCount: Int? = nil) {
    (self.line, self.byteCount) = (line, byteCount)
    (self.fileByteCount, self.estimatedLineCount) = (fileByteCount, estimatedLineCount)
  }
}
