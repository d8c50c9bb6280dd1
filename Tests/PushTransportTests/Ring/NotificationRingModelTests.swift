internal import PushTransport
internal import Support
internal import Testing

/// Many open claims of one thread, in orders from a schedule or a seed. In every order, what can be
/// read is exactly the claims published so far without a gap, and each of them whole.
@Suite("NotificationRing, against a model")
struct NotificationRingModelTests {
  /// The model's copy of one claim.
  private struct Chunk {
    var samples: [Sample]
    var isPublished = false
    var end: UInt64
  }

  /// The ring and its model.
  private struct Pair {
    let ring: NotificationRing
    var chunks: [Chunk] = []
    var open: [Int: OpenClaim] = [:]
    var expected: [Sample] = []
    var readable = 0
    /// Where the notifications that have been read start.
    var starts: [UInt64] = []
    var read: [Sample] = []
    var nextOrdinal: UInt64 = 1

    init(blockCount: Int) {
      ring = NotificationRing(blockCount: blockCount)
    }

    /// Claims room for `sizes` records and writes as many of them as fit; the claim stays open.
    /// Returns false if there is no room.
    mutating func claim(_ sizes: [Int]) -> Bool {
      guard let first = sizes.first, let claim = OpenClaim(ring, minimum: first, maximum: sizes.reduce(0, +)) else {
        return false
      }
      var samples: [Sample] = []
      for size in sizes {
        let sample = Sample(ordinal: nextOrdinal, blockCount: size)
        guard claim.append(sample) else { break }
        nextOrdinal += 1
        samples.append(sample)
      }
      open[chunks.count] = claim
      chunks.append(Chunk(samples: samples, end: UInt64(ring.blockCount) + ring.settled - UInt64(ring.freeBlockCount)))
      return true
    }

    mutating func publish(_ chunk: Int) {
      open[chunk]?.publish()
      open[chunk] = nil
      chunks[chunk].isPublished = true
      while readable < chunks.count, chunks[readable].isPublished {
        expected += chunks[readable].samples
        readable += 1
      }
    }

    /// Reads new records and compares everything with the model.
    mutating func agrees() -> Bool {
      let end = readable == 0 ? 0 : chunks[readable - 1].end
      guard ring.published == end, ring.isFullyPublished == open.isEmpty else { return false }
      ring.forEachNotification(from: ring.sent, to: ring.published) { position, record in
        if position > starts.last ?? 0 || starts.isEmpty {
          starts.append(position)
          read.append(Sample(record))
        }
      }
      ring.setSent(ring.published)
      return read == expected
    }
  }

  @Test("in every order of three producers' claims, no claim is read early, late, twice or in parts")
  func everyOrder() {
    var orders: [[Int]] = []
    func extend(_ order: [Int], _ left: [Int]) {
      if left.allSatisfy({ $0 == 0 }) { return orders.append(order) }
      for producer in left.indices where left[producer] > 0 {
        var rest = left
        rest[producer] -= 1
        extend(order + [producer], rest)
      }
    }
    // Each producer claims and publishes in turn: 10 steps in 3,150 orders.
    extend([], [4, 4, 2])
    #expect(orders.count == 3_150)
    var failures: [[Int]] = []
    for order in orders {
      var pair = Pair(blockCount: 256)
      // So that some of the claims are at the wrap.
      pair.ring.addPadding(250)
      pair.ring.settleEverything()
      pair.chunks = [Chunk(samples: [], isPublished: true, end: 250)]
      pair.readable = 1
      var steps = [0, 0, 0]
      var mine: [Int?] = [nil, nil, nil]
      var agrees = true
      for producer in order {
        if let chunk = mine[producer] {
          pair.publish(chunk)
          mine[producer] = nil
        } else {
          mine[producer] = pair.chunks.count
          agrees = agrees && pair.claim([producer + 1, 1, steps[producer]].filter { $0 > 0 })
        }
        steps[producer] += 1
        agrees = agrees && pair.agrees()
      }
      if !agrees { failures.append(order) }
    }
    #expect(failures.count == 0, "\(failures.count) orders, such as \(failures.prefix(3))")
  }

  @Test(
    "any sequence of claims, publications, rewinds and settlements agrees with the model",
    arguments: 1...40 as ClosedRange<UInt64>)
  func randomSequences(_ seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var pair = Pair(blockCount: [256, 512].randomElement(using: &random) ?? 256)
    let largest = [1, 3, 20, RingRecord.blockCountLimit].randomElement(using: &random) ?? 1
    for step in 0..<400 {
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<4:
        guard pair.open.count < 6 else { continue }
        let sizes = (0..<Int.random(in: 1...5, using: &random)).map { _ in Int.random(in: 1...largest, using: &random) }
        let free = pair.ring.freeBlockCount
        let fits = pair.claim(sizes)
        #expect(
          fits || free < sizes[0] + RingRecord.blockCountLimit,
          "seed \(seed), step \(step): refused with \(free) blocks free")
      case 4..<8:
        guard let chunk = pair.open.keys.sorted().randomElement(using: &random) else { continue }
        pair.publish(chunk)
      case 8:
        // Rewinds to a notification that is not settled, and sends the same records again.
        let candidates = pair.starts.indices.filter { pair.starts[$0] >= pair.ring.settled }
        guard let index = candidates.randomElement(using: &random) else { continue }
        pair.ring.setSent(pair.starts[index])
        let again = pair.ring.samples(from: pair.ring.sent).prefix(pair.read.count - index)
        #expect(Array(again) == Array(pair.read[index...]), "seed \(seed), step \(step): a rewind reads something else")
      default:
        let candidates = pair.starts.filter { $0 >= pair.ring.settled && $0 <= pair.ring.sent } + [pair.ring.sent]
        let free = pair.ring.freeBlockCount
        let position = candidates.randomElement(using: &random) ?? pair.ring.sent
        let gain = Int(position - pair.ring.settled)
        pair.ring.settle(through: position)
        #expect(pair.ring.freeBlockCount == free + gain, "seed \(seed), step \(step)")
      }
      guard pair.agrees() else {
        Issue.record(
          "seed \(seed), step \(step): published \(pair.ring.published), read \(pair.read.count)/\(pair.expected.count)"
        )
        return
      }
    }
  }
}
