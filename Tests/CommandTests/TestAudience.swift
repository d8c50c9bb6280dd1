internal import PushWire
internal import Support

/// One entry of a campaign: an app and its recipients. Every token is used once, and its text
/// determines how the gateway treats it.
struct TestAudience: Sendable {
  enum Kind: Hashable, Sendable {
    case good
    /// The gateway refuses it with status 8.
    case refused
    /// Not a token.
    case malformed
    /// The payload is too large with the recipient's name.
    case tooLarge
  }

  struct Line: Sendable {
    let kind: Kind
    /// Nil: malformed.
    let token: TokenBytes?
    /// The text in the file, without the name.
    let text: String
  }

  struct Shape: Hashable, Sendable {
    var count = 1000
    /// CSV with a column for the payload's placeholder.
    var isPersonal = false
    /// The size of the names in that column, except for a few. They cannot be compressed.
    var nameByteCount = 0
    /// How many of the lines do not arrive.
    var refusedCount = 0
    var malformedCount = 0
    var tooLargeCount = 0
  }

  let app: String
  let topic: String
  /// Its name in the test's folder.
  let file: String
  let payloadFile: String
  let isPersonal: Bool
  private let nameByteCount: Int
  /// The first is line `firstLine` of the file.
  let lines: [Line]

  /// - Parameter index: Different for each audience of a test, and part of its tokens.
  init(app: String, topic: String, index: Int, shape: Shape, using random: inout SeededGenerator) {
    self.app = app
    self.topic = topic
    isPersonal = shape.isPersonal
    nameByteCount = shape.nameByteCount
    file = "audience-\(index).\(shape.isPersonal ? "csv" : "txt")"
    payloadFile = "payload-\(index).json"
    var kinds: [Int: Kind] = [:]
    func place(_ kind: Kind, _ count: Int, _ random: inout SeededGenerator) {
      for _ in 0..<count { kinds[Int.random(in: 0..<shape.count, using: &random)] = kind }
    }
    place(.refused, shape.refusedCount, &random)
    place(.malformed, shape.malformedCount, &random)
    if shape.isPersonal { place(.tooLarge, shape.tooLargeCount, &random) }
    lines = (0..<shape.count).map { number in
      let kind = kinds[number] ?? .good
      guard kind != .malformed else { return Line(kind: kind, token: nil, text: "no token \(number)") }
      let start: [UInt8] = kind == .refused ? [0xDE, 0xAD] : [0xBE, 0xEF]
      let place = [UInt8(index)] + (0..<4).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
      let token = TokenBytes(bytes: start + place + random.bytes(25))
      return Line(kind: kind, token: token, text: token?.description ?? "")
    }
  }

  var firstLine: Int { isPersonal ? 2 : 1 }

  private static let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

  private func name(_ index: Int) -> String {
    if lines[index].kind == .tooLarge { return String(repeating: "x", count: 2100) }
    guard nameByteCount > 0 else { return "N\(index)" }
    var random = SeededGenerator(seed: UInt64(index))
    var bytes = Array("N\(index)".utf8)
    for _ in 0..<((nameByteCount + 7) / 8) {
      let number = random.next()
      for place in 0..<8 { bytes.append(Self.letters[Int(number >> (8 * place) & 63)]) }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// The content of the token file.
  var text: String {
    guard isPersonal else { return lines.map { $0.text + "\n" }.joined() }
    return "token,name\n" + lines.indices.map { "\(lines[$0].text),\(name($0))\n" }.joined()
  }

  /// The content of the payload's file.
  var payloadText: String { #"{"aps":{"alert":"To \#(file)\#(isPersonal ? ", {{name}}" : "")"}}"# }

  /// The payload that line `firstLine + index` must get.
  func payload(_ index: Int) -> [UInt8] {
    Array((isPersonal ? payloadText.replacing("{{name}}", with: name(index)) : payloadText).utf8)
  }
}
