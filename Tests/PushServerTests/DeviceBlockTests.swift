internal import PushStore
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushServer
@testable internal import PushService

@Suite("Blocks of an import")
struct DeviceBlockTests {
  private static func device(_ token: [UInt8], replaced: [UInt8]? = nil, at instant: Int64) -> DeviceRegistration {
    DeviceRegistration(
      token: token, replacedToken: replaced, newID: DeviceBlock.noID,
      registeredAt: StoreInstant(milliseconds: instant))
  }

  /// What the order depends on.
  private static func prefix(_ token: [UInt8]) -> [UInt8] {
    Array((token + [UInt8](repeating: 0, count: 8)).prefix(8))
  }

  private static func block(_ devices: [DeviceRegistration]) -> DeviceBlock {
    var block = DeviceBlock(place: nil, beganAt: .start)
    for device in devices { block.add(device, byteCount: 1) }
    block.prepare(now: StoreInstant(milliseconds: 1_000))
    return block
  }

  private static func prepared(_ devices: [DeviceRegistration]) -> [DeviceRegistration] { block(devices).devices }

  @Test("devices get the order of their tokens, those of one token keep theirs", arguments: 0..<20)
  func order(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let devices = (0..<500).map { index in
      // Some tokens are the same, some the beginning of others.
      Self.device(
        (0..<Int.random(in: 1...9, using: &random)).map { _ in UInt8.random(in: 0...2, using: &random) },
        at: Int64(index))
    }
    let sorted = Self.prepared(devices)
    #expect(Set(sorted.map(\.registeredAt)) == Set(devices.map(\.registeredAt)), "seed \(seed)")
    for (first, second) in zip(sorted, sorted.dropFirst()) {
      let isInOrder = !Self.prefix(second.token).lexicographicallyPrecedes(Self.prefix(first.token))
      #expect(isInOrder, "seed \(seed): \(first.token), \(second.token)")
      if first.token == second.token { #expect(first.registeredAt < second.registeredAt, "seed \(seed)") }
    }
    let last = Dictionary(devices.map { ($0.token, $0.registeredAt) }) { _, last in last }
    #expect(Dictionary(sorted.map { ($0.token, $0.registeredAt) }) { _, last in last } == last, "seed \(seed)")
  }

  @Test("a block with a token that takes another one's place keeps its order")
  func replacedTokens() {
    let devices = [Self.device([3], at: 1), Self.device([1], replaced: [3], at: 2), Self.device([2], at: 3)]
    #expect(Self.prepared(devices).map(\.token) == [[3], [1], [2]])
    #expect(Self.block(devices).parts(2).count == 1)
  }

  @Test("parts that may be stored at the same time have all devices, and no token in common", arguments: 0..<50)
  func parts(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let devices = (0..<Int.random(in: 0...60, using: &random)).map { index in
      Self.device(
        (0..<Int.random(in: 1...9, using: &random)).map { _ in UInt8.random(in: 0...2, using: &random) },
        at: Int64(index))
    }
    let block = Self.block(devices)
    let count = Int.random(in: 1...4, using: &random)
    let parts = block.parts(count)
    #expect(parts.flatMap(\.self) == block.devices, "seed \(seed)")
    #expect(parts.count <= count, "seed \(seed)")
    let tokens = parts.map { Set($0.map(\.token)) }
    #expect(tokens.reduce(0) { $0 + $1.count } == Set(devices.map(\.token)).count, "seed \(seed)")
  }

  @Test("new ids are of version 7 and ascend, and no two blocks have the same")
  func identifiers() {
    let devices = (0..<300).map { Self.device([UInt8($0 % 256), UInt8($0 / 256)], at: 1) }
    let ids = Self.prepared(devices).map(\.newID)
    for (first, second) in zip(ids, ids.dropFirst()) {
      #expect(first.high == second.high)
      #expect(first.low < second.low)
    }
    #expect(ids.allSatisfy { StoredUUID($0.text) == $0 })
    #expect(Set(ids).isDisjoint(with: Self.prepared(devices).map(\.newID)))
  }

  @Test("only a few blocks at a time may be large")
  func places() {
    // Imports of other tests may have some, too.
    var held: [DeviceBlockPlace] = []
    while let place = DeviceBlockPlace() { held.append(place) }
    #expect(held.count < 100)
    var small = DeviceBlock(place: nil, beganAt: .start)
    for index in 0..<DeviceBlock.portionLimit { small.add(Self.device([UInt8(index % 256)], at: 1), byteCount: 1) }
    #expect(small.isFull)
    var place = held.popLast()
    held = []
    while place == nil { place = DeviceBlockPlace() }
    var large = DeviceBlock(place: place, beganAt: .start)
    for index in 0..<DeviceBlock.portionLimit { large.add(Self.device([UInt8(index % 256)], at: 1), byteCount: 1) }
    #expect(!large.isFull)
    // Long tags.
    large.add(Self.device([1], at: 1), byteCount: 8 << 20)
    #expect(large.isFull)
  }

  @Test("the description's pattern of a tag accepts what is accepted, however it is typed, and nothing else")
  func tagPattern() throws {
    let text = String(decoding: PackageResources.openapi_yaml, as: UTF8.self)
    let found = try #require(text.firstMatch(of: /maxLength: 64, pattern: '(.+)' }/).map { String($0.1) })
    let pattern = try Regex(found)
    for tag in [
      "sport", "Sport", "a:b.c_d-e", "caf\u{e9}", "CAFE\u{301}", "\u{6771}\u{4eac}", "two words", "a,b", "a\"b", "",
      "a\u{a0}b", "a\tb", "a\u{200b}b", "a\u{7f}", "a\u{e000}", "\n",
    ] {
      let isAccepted = (try? DeviceTag.normalised(tag)) != nil
      #expect((tag.wholeMatch(of: pattern) != nil) == isAccepted, "\(tag.debugDescription)")
    }
  }
}
