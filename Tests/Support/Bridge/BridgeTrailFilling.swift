package import PushWire

extension ForwardedMemory.Limits {
  /// - Parameter age: in seconds; by default so many that nothing is forgotten because of it.
  package static func frames(_ count: Int, age: Int = 1_000_000) -> Self {
    var limits = Self()
    (limits.count, limits.age) = (count, .seconds(age))
    return limits
  }
}

extension BridgeTrail {
  /// Frames that are forwarded in stretches of some length.
  package mutating func fill(_ count: Int, stretch: Int = 50, isAnswered: Bool = true) {
    for first in Swift.stride(from: 0, to: count, by: stretch) {
      let (number, length) = (next, min(stretch, count - first))
      for offset in 0..<UInt64(length) {
        took(FrameDigest(high: number + offset, low: 1), line: nil, answer: nil)
      }
      let gap = UInt32(number) / UInt32(stretch)
      forwarded(number, count: length, as: ForwardedLine(high: 1, low: 1, line: UInt32(number) + gap))
      if isAnswered { answered(number, count: length, .accepted) }
    }
  }
}
