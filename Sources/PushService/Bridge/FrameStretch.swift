internal import PushWire

/// Frames of a connection of which each is the next frame and the next line of a run.
struct FrameStretch {
  /// The number of the first frame.
  let number: UInt64
  /// The line of the first frame.
  let line: ForwardedLine
  var digests: [FrameDigest]

  var count: Int { digests.count }
}

extension [FrameStretch] {
  /// Adds a frame, to the last stretch if it belongs there.
  mutating func append(_ number: UInt64, _ digest: FrameDigest, as line: ForwardedLine) {
    if let last = indices.last, self[last].number + UInt64(self[last].count) == number,
      self[last].line.advanced(by: self[last].count) == line
    {
      self[last].digests.append(digest)
    } else {
      append(FrameStretch(number: number, line: line, digests: [digest]))
    }
  }
}
