internal import Foundation
internal import PushWire
internal import Support
internal import Testing

@Suite("Identifiers, dates and token texts of the provider API")
struct ProviderValuesTests {
  @Test("an apns-id is written in lower case and read in either")
  func identifier() throws {
    let uuid = UUID()
    let bytes = unsafe withUnsafeBytes(of: uuid.uuid) { unsafe Array($0) }
    let identifier = try #require(APNSIdentifier(bytes: bytes))
    #expect(identifier.description == uuid.uuidString.lowercased())
    #expect(APNSIdentifier(parsing: uuid.uuidString) == identifier)
    #expect(APNSIdentifier(parsing: identifier.description) == identifier)
    for text in [
      "", "x", uuid.uuidString + "0", String(uuid.uuidString.dropLast()),
      uuid.uuidString.replacingOccurrences(of: "-", with: "_"),
      "g" + uuid.uuidString.dropFirst(),
    ] {
      #expect(APNSIdentifier(parsing: text) == nil, "\(text)")
    }
    #expect(APNSIdentifier(bytes: Array(bytes.dropLast())) == nil)
  }

  @Test("a campaign's identifiers are UUIDs of version 4, all different, and the same each time")
  func sequence() {
    let sequence = APNSIdentifierSequence(IdentifierSeed(high: .max, low: 12345))
    var seen: Set<APNSIdentifier> = []
    for ordinal in [0, 1, 2, 1 << 20, 1 << 61, (1 << 62) - 1] + Array(100..<20_000) as [UInt64] {
      let identifier = sequence[ordinal]
      #expect(seen.insert(identifier).inserted)
      #expect(identifier == APNSIdentifierSequence(IdentifierSeed(high: .max, low: 12345))[ordinal])
      let text = Array(identifier.description)
      #expect(text[14] == "4")
      #expect("89ab".contains(text[19]))
    }
    #expect(
      APNSIdentifierSequence(IdentifierSeed(high: 1, low: 2))[7]
        != APNSIdentifierSequence(IdentifierSeed(high: 3, low: 2))[7])
  }

  @Test(
    "HTTP dates are read and written as by Foundation",
    arguments: [0, 1, 951_782_400, 951_868_799, 1_700_000_000, 4_102_444_800, 253_402_300_799] as [Int64])
  func dates(unixSeconds: Int64) {
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.timeZone = TimeZone(secondsFromGMT: 0)
    formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
    let text = HTTPDate.text(unixSeconds)
    #expect(text == formatter.string(from: Date(timeIntervalSince1970: TimeInterval(unixSeconds))))
    #expect(Self.date(text) == unixSeconds)
  }

  @Test("random dates are read back, and a text that is not a date is refused")
  func randomDates() {
    var random = SeededGenerator.fresh()
    for _ in 0..<5000 {
      let seconds = Int64.random(in: 0..<253_402_300_800, using: &random)
      #expect(Self.date(HTTPDate.text(seconds)) == seconds, "seed \(random.seed)")
      var bytes = Array(HTTPDate.text(seconds).utf8)
      bytes[Int.random(in: 0..<29, using: &random)] = UInt8.random(in: .min ... .max, using: &random)
      _ = HTTPDate.parse(bytes.span)
      let part = bytes.dropLast(Int.random(in: 0..<29, using: &random))
      _ = HTTPDate.parse(part.span)
    }
    for text in [
      "", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 32 Nov 1994 08:49:37 GMT",
      "Sun, 06 Nov 1994 24:49:37 GMT",
    ] {
      #expect(Self.date(text) == nil, "\(text)")
    }
  }

  /// `#expect` takes no call with a span.
  private static func date(_ text: String) -> Int64? {
    let bytes = Array(text.utf8)
    return HTTPDate.parse(bytes.span)
  }

  @Test("base64url is as in RFC 4648, for every length")
  func base64() {
    for (bytes, text) in [
      ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
      ("foobar", "Zm9vYmFy"),
    ] {
      #expect(Base64URL.encode(Array(bytes.utf8)) == Array(text.utf8))
      #expect(Base64URL.decode(Array(text.utf8)) == Array(bytes.utf8))
    }
    #expect(Base64URL.encode([0xFB, 0xFF]) == Array("-_8".utf8))
    for text in ["Zg==", "Z", "Zh", "+/8", "Zm 9v"] { #expect(Base64URL.decode(Array(text.utf8)) == nil, "\(text)") }
    var random = SeededGenerator.fresh()
    for _ in 0..<500 {
      let bytes = random.bytes(Int.random(in: 0..<100, using: &random))
      #expect(Base64URL.decode(Base64URL.encode(bytes)) == bytes, "seed \(random.seed)")
    }
  }

  @Test("a provider token names issuer and time, and each defect has its error")
  func tokens() throws {
    let input = ProviderTokenText.signingInput(
      keyIdentifier: "ABC123DEFG", teamIdentifier: "DEF123GHIJ", issuedAt: 1_437_179_036)
    let parts = String(decoding: input, as: UTF8.self).split(separator: ".")
    #expect(
      Base64URL.decode(Array(parts[0].utf8)).map { String(decoding: $0, as: UTF8.self) }
        == #"{"alg":"ES256","kid":"ABC123DEFG"}"#)
    #expect(
      Base64URL.decode(Array(parts[1].utf8)).map { String(decoding: $0, as: UTF8.self) }
        == #"{"iss":"DEF123GHIJ","iat":1437179036}"#)
    let text = ProviderTokenText.text(signingInput: input, signature: [1, 2, 3])
    let token = try ProviderTokenText(parsing: Array(text.utf8))
    #expect(token.keyIdentifier == "ABC123DEFG")
    #expect(token.teamIdentifier == "DEF123GHIJ")
    #expect(token.issuedAt == 1_437_179_036)
    #expect(!token.hasFractionalTime)
    #expect(token.signingInput == input)
    #expect(token.signature == [1, 2, 3])

    func made(_ header: String, _ claims: String) -> [UInt8] {
      Base64URL.encode(Array(header.utf8)) + [46] + Base64URL.encode(Array(claims.utf8)) + Array(".AAAA".utf8)
    }
    func error(_ bytes: [UInt8]) -> ProviderTokenError? {
      do throws(ProviderTokenError) {
        _ = try ProviderTokenText(parsing: bytes)
        return nil
      } catch {
        return error
      }
    }
    let good = (header: #"{"alg":"ES256","kid":"K"}"#, claims: #"{"iss":"T","iat":5}"#)
    #expect(error(made(good.header, good.claims)) == nil)
    #expect(try ProviderTokenText(parsing: made(good.header, #"{"iss":"T","iat":5.75}"#)).hasFractionalTime)
    #expect(error(made(#"{"alg":"none","kid":"K"}"#, good.claims)) == .otherAlgorithm)
    #expect(error(made(#"{"alg":"ES256"}"#, good.claims)) == .keyIdentifierMissing)
    #expect(error(made(good.header, #"{"iat":5}"#)) == .issuerMissing)
    #expect(error(made(good.header, #"{"iss":"T","iat":"5"}"#)) == .timeMissing)
    #expect(error(made(good.header, #"{"iss":"T","iat":1e300}"#)) == .timeMissing)
    for bytes in [
      Array("a.b".utf8), Array("....".utf8), [], made("[]", good.claims), made(good.header, "5"),
      [UInt8](repeating: 0x41, count: 5000),
    ] {
      #expect(error(bytes) == .notJWT)
    }
    var random = SeededGenerator.fresh()
    for _ in 0..<5000 {
      var bytes = made(good.header, good.claims)
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: .min ... .max, using: &random)
      }
      _ = error(bytes)
    }
  }
}
