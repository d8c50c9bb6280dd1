internal import Foundation
internal import PushTransport
internal import Support
internal import Synchronization
internal import Testing

/// Real threads on a small ring, with a consumer that rewinds and settles at random.
///
/// Also run under ThreadSanitizer, and then optimised (`-Xswiftc -O`). Without optimisation, Swift
/// reads raw memory inside the standard library, which is not instrumented, and not even a relaxed
/// stamp is noticed.
@Suite("NotificationRing, from many threads", .serialized)
struct NotificationRingStressTests {
  @Test(
    "four producers on a small ring: each notification is read once, whole and in order; no wake-up is lost",
    arguments: [(1, 256, 1), (2, 256, 4), (3, 512, 4), (4, 1024, 83), (5, 256, 83)] as [(UInt64, Int, Int)])
  func stress(_ seed: UInt64, _ blockCount: Int, _ largest: Int) {
    let crew = Crew(
      ring: NotificationRing(blockCount: blockCount), producerCount: 4, countEach: largest > 10 ? 3_000 : 15_000)
    for producer in 0..<crew.producerCount {
      Thread.detachNewThread { crew.produce(producer, seed: seed, largest: largest) }
    }
    var consumer = Consumer(crew: crew, seed: seed)
    let findings = consumer.run()
    crew.stop()
    #expect(findings.isEmpty, "seed \(seed): \(findings.prefix(3))")
    #expect(consumer.next == crew.counts, "seed \(seed)")
    #expect(consumer.rewinds > 10, "seed \(seed): a run without rewinds proves nothing about them")
  }

  @Test("producer and consumer in lock-step, asleep between any two notifications: no wake-up is lost")
  func lockStep() {
    let crew = Crew(ring: NotificationRing(blockCount: 256), producerCount: 2, countEach: 20_000)
    for producer in 0..<2 {
      Thread.detachNewThread { crew.produceOneByOne(producer) }
    }
    var counts = [UInt64](repeating: 0, count: 2)
    var finding: String?
    while finding == nil, counts != crew.counts {
      let published = crew.ring.published
      crew.ring.forEachNotification(from: crew.ring.sent, to: published) { _, record in
        counts[Int(record.campaign)] += 1
        if record.ordinal != counts[Int(record.campaign)] {
          finding = "\(record.ordinal) instead of \(counts[Int(record.campaign)])"
        }
      }
      crew.ring.setSent(published)
      crew.ring.settle(through: published)
      if counts != crew.counts, crew.ring.sleep(seen: published), !crew.waitForWork() {
        finding = "lost wake-up after \(counts)"
      }
    }
    crew.stop()
    #expect(finding == nil)
  }
}

/// The state that producers and consumer share.
private final class Crew: Sendable {
  let ring: NotificationRing
  let producerCount: Int
  let countEach: UInt64
  private let wakeUps = DispatchSemaphore(value: 0)
  private let isStopped = Atomic<Bool>(false)
  private let running: Atomic<Int>

  init(ring: NotificationRing, producerCount: Int, countEach: UInt64) {
    self.ring = ring
    self.producerCount = producerCount
    self.countEach = countEach
    running = Atomic(producerCount)
  }

  var counts: [UInt64] { [UInt64](repeating: countEach, count: producerCount) }

  /// Ends the producers, also when the consumer has given up.
  func stop() {
    isStopped.store(true, ordering: .releasing)
    while running.load(ordering: .acquiring) > 0 { sched_yield() }
  }

  /// Returns false if the consumer was not woken for so long that a wake-up must be lost.
  func waitForWork() -> Bool { wakeUps.wait(timeout: .now() + 20) == .success }

  func produce(_ producer: Int, seed: UInt64, largest: Int) {
    defer { running.subtract(1, ordering: .releasing) }
    var random = SeededGenerator(seed: seed &* 100 &+ UInt64(producer))
    var ordinal: UInt64 = 1
    while ordinal <= countEach, !isStopped.load(ordering: .acquiring) {
      let blocks = Int.random(in: 1...largest, using: &random)
      guard var claim = ring.claim(minimum: blocks, maximum: blocks + Int.random(in: 0...40, using: &random)) else {
        sched_yield()
        continue
      }
      while ordinal <= countEach, Checked(producer: producer, ordinal: ordinal, blocks: blocks).append(to: &claim) {
        ordinal += 1
      }
      // Sometimes a producer is delayed between writing and publishing.
      if random.chance(5) { sched_yield() }
      claim.publish()
      if ring.takeWakeUp() { wakeUps.signal() }
    }
  }

  func produceOneByOne(_ producer: Int) {
    defer { running.subtract(1, ordering: .releasing) }
    var ordinal: UInt64 = 1
    while ordinal <= countEach, !isStopped.load(ordering: .acquiring) {
      if ring.add(Sample(ordinal: ordinal, campaign: UInt32(producer), token: [1])) { ordinal += 1 }
      if ring.takeWakeUp() { wakeUps.signal() }
    }
  }
}

/// A notification whose bytes all follow from its producer, number and size.
private struct Checked {
  var producer: Int
  var ordinal: UInt64
  var blocks: Int

  private var tokenByteCount: Int { blocks == 1 ? 32 : 96 - Int(ordinal % 60) }
  private var payloadByteCount: Int { blocks == 1 ? 0 : min(5120, (blocks - 2) * NotificationRing.blockByteCount) }
  private var checksum: UInt64 {
    (ordinal &* 0x9E37_79B9_7F4A_7C15) ^ UInt64(producer) << 56 ^ UInt64(blocks) &* 0xBF58_476D_1CE4_E5B9
  }

  func append(to claim: inout RingClaim) -> Bool {
    let header = RingRecord.Header(
      ordinal: ordinal, campaign: UInt32(producer), expiration: UInt32(truncatingIfNeeded: checksum),
      priority: UInt8(blocks))
    return unsafe withContent { token, payload in unsafe claim.append(header, token: token, payload: payload) }
  }

  private func withContent<R>(_ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> R) -> R {
    unsafe withUnsafeTemporaryAllocation(byteCount: tokenByteCount + payloadByteCount, alignment: 8) { memory in
      let word = checksum
      for index in 0..<memory.count {
        unsafe memory[index] = UInt8(truncatingIfNeeded: word >> (UInt64(index) % 8 * 8))
      }
      let bytes = UnsafeRawBufferPointer(memory)
      return unsafe body(
        UnsafeRawBufferPointer(rebasing: bytes[..<tokenByteCount]),
        UnsafeRawBufferPointer(rebasing: bytes[tokenByteCount...]))
    }
  }

  /// Whether a record is such a notification and whole.
  static func isIntact(_ record: RingRecord) -> Bool {
    let sample = Checked(producer: Int(record.campaign), ordinal: record.ordinal, blocks: Int(record.priority ?? 0))
    guard record.expiration == UInt32(truncatingIfNeeded: sample.checksum) else { return false }
    let readToken = unsafe record.token
    let readPayload = unsafe record.payload
    return unsafe sample.withContent { token, payload in
      unsafe same(token, readToken) && same(payload, readPayload)
    }
  }

  private static func same(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
    guard left.count == right.count else { return false }
    guard let a = left.baseAddress, let b = right.baseAddress, left.count > 0 else { return true }
    return unsafe memcmp(a, b, left.count) == 0
  }
}

/// The consumer: reads in batches, rewinds, settles, sleeps, and checks.
private struct Consumer {
  private struct Entry {
    var position: UInt64
    var end: UInt64
    var producer: UInt32
    var ordinal: UInt64
  }

  private let crew: Crew
  private var random: SeededGenerator
  /// The notifications that were read and are not settled, in order.
  private var window: [Entry] = []
  /// How many of the window count as sent.
  private var sentCount = 0
  /// Notifications read so far, for each producer.
  private(set) var next: [UInt64]
  private(set) var rewinds = 0
  private var findings: [String] = []

  init(crew: Crew, seed: UInt64) {
    self.crew = crew
    random = SeededGenerator(seed: seed)
    next = [UInt64](repeating: 0, count: crew.producerCount)
  }

  mutating func run() -> [String] {
    while findings.isEmpty, next != crew.counts {
      let published = crew.ring.published
      readSome(upTo: published)
      if !window.isEmpty, random.chance(10) { rewind() }
      if random.chance(60) { settle(Int.random(in: 0...sentCount, using: &random)) }
      guard crew.ring.sent == published else { continue }
      settle(sentCount)
      crew.ring.settle(through: published)
      if next != crew.counts, crew.ring.sleep(seen: published), !crew.waitForWork() {
        findings.append("a lost wake-up at \(published)")
      }
    }
    return findings
  }

  /// Reads a batch: first what a rewind has left, then what is new.
  private mutating func readSome(upTo published: UInt64) {
    var position = crew.ring.sent
    var left = Int.random(in: 1...100, using: &random)
    while position < published, left > 0 {
      let record = crew.ring.record(at: position)
      let end = position + record.blockCount
      if record.isNotification { check(record, at: position, end: end) }
      position = end
      left -= 1
    }
    crew.ring.setSent(position)
  }

  private mutating func check(_ record: RingRecord, at position: UInt64, end: UInt64) {
    guard Checked.isIntact(record) else { return findings.append("a damaged record at \(position)") }
    if sentCount < window.count {
      let before = window[sentCount]
      if before.position != position || before.end != end || before.producer != record.campaign
        || before.ordinal != record.ordinal
      {
        findings.append("another record at \(position) after a rewind")
      }
    } else {
      let producer = Int(record.campaign)
      next[producer] += 1
      if record.ordinal != next[producer] {
        findings.append("producer \(producer): \(record.ordinal) instead of \(next[producer])")
      }
      window.append(Entry(position: position, end: end, producer: record.campaign, ordinal: record.ordinal))
    }
    sentCount += 1
  }

  private mutating func rewind() {
    sentCount = Int.random(in: 0..<window.count, using: &random)
    crew.ring.setSent(window[sentCount].position)
    rewinds += 1
  }

  private mutating func settle(_ count: Int) {
    guard count > 0 else { return }
    crew.ring.settle(through: window[count - 1].end)
    window.removeFirst(count)
    sentCount -= count
  }
}
