internal import PushEngine
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

/// A campaign's own rate, in virtual time.
struct PacedAudienceTests {
  @Test(
    "an audience takes as long as its rate says, whatever of it cannot be sent",
    arguments: [7, 200, 3_000], [0, 1, 9])
  func pace(perSecond: Int, unsendable: Int) throws {
    let count = perSecond * 5
    let time = Mutex(Instant.start)
    let pace = CampaignPace(perSecond: Double(perSecond)) { time.withLock { $0 } }
    let lines = (0..<count).map { _ in
      Audience.token + "\n" + String(repeating: "not a token\n", count: unsendable)
    }
    let audience = PacedAudience(try Lines(lines.joined()), pace)
    let chunk = AudienceChunk(entryLimit: pace.entryLimit)
    var (readyCount, otherCount) = (0, 0)
    reading: while true {
      switch try audience.fill(chunk) {
      case .entries:
        readyCount += chunk.readyCount
        otherCount += chunk.count - chunk.readyCount
      case .nothingFor(let pause): time.withLock { $0 = $0 + pause }
      case .end: break reading
      case .nothingYet, .waiting:
        Issue.record("a file in memory has all that it will have")
        break reading
      }
    }
    #expect(readyCount == count)
    #expect(otherCount == count * unsendable)
    let taken = time.withLock { $0 }.since(.start)
    // The first chunk goes at once.
    #expect(taken >= .seconds(4.8))
    #expect(taken <= .seconds(5.1))
  }

  /// A file in memory, read a chunk at a time.
  private final class Lines: AudienceSource {
    private struct Reading: ~Copyable {
      var reader: AudienceReader
      var position: Int
    }

    private let bytes: [UInt8]
    private let reading: Mutex<Reading>

    init(_ text: String) throws {
      bytes = Array(text.utf8)
      let header = try #require(try AudienceHeader.detect(bytes, isWhole: true))
      reading = Mutex(Reading(reader: AudienceReader(header, renderer: nil), position: header.byteCount))
    }

    func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
      chunk.removeAll()
      reading.withLock { reading in
        if reading.position < bytes.count {
          reading.position += unsafe bytes.withUnsafeBytes {
            unsafe reading.reader.read(UnsafeRawBufferPointer(rebasing: $0[reading.position...]), into: chunk)
          }
        }
        if reading.position == bytes.count { _ = reading.reader.finish(into: chunk) }
      }
      return chunk.count > 0 ? .entries : .end
    }
  }
}
