internal import PushWire
internal import Support
internal import Testing

@Suite("Lines of JSON that repeat each other")
struct JSONLineTests {
  private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

  private static func line(_ text: String) -> JSONLineShape? {
    let bytes = bytes(text)
    return JSONLineShape(bytes, 0..<bytes.count)
  }

  private static func token(_ line: JSONLineShape?, _ text: String) -> TokenBytes? {
    let bytes = bytes("x" + text + "\"")
    return line?.line(bytes, 1..<bytes.count - 1)?.token
  }

  /// Token, identifier of the device and reference, as a line says them.
  private static func parts(_ line: JSONLineShape?, _ text: String) -> [String]? {
    let bytes = bytes("x" + text + "\"")
    guard let found = line?.line(bytes, 1..<bytes.count - 1) else { return nil }
    func written(_ range: Range<Int>?) -> String { range.map { String(decoding: bytes[$0], as: UTF8.self) } ?? "-" }
    return [found.token.map { "\($0)" } ?? "-", written(found.deviceID), written(found.reference)]
  }

  @Test(
    "a line with another token is recognised, wherever the token stands",
    arguments: [
      (#"{"token":"ab01","payload":{"aps":{}}}"#, #"{"token":"CD02","payload":{"aps":{}}}"#),
      (#"{"payload":{"token":"x"}, "token" : "ab01" }"#, #"{"payload":{"token":"x"}, "token" : "cd02" }"#),
      (" {\"a\":[{\"token\":1}],\"token\":\"ab01\"}\r", " {\"a\":[{\"token\":1}],\"token\":\"cd02\"}\r"),
    ])
  func recognised(first: String, second: String) throws {
    let line = try #require(Self.line(first))
    #expect(Self.token(line, first) == TokenBytes(bytes: [0xAB, 1]))
    #expect(Self.token(line, second) == TokenBytes(bytes: [0xCD, 2]))
  }

  @Test(
    "a line that differs in anything else is not",
    arguments: [
      #"{"token":"cd02","payload":{"aps":{"a":1}}}"#, #"{"token":"cd02","payload":{"aps":[]}}"#,
      #"{"token":"cd","payload":{"aps":{}}}"#, #"{"token":"cd0203","payload":{"aps":{}}}"#,
      #"{"token":"cd0x","payload":{"aps":{}}}"#, #"{"token":"c","" :"payload":{"aps":{}}}"#,
      #"{"token":"cd02","payload":{"aps":{}}} "#, #"{"tokem":"cd02","payload":{"aps":{}}}"#, "",
      #"{"token":"cd\"","payload":{"aps":{}}}"#,
    ])
  func others(text: String) throws {
    let line = try #require(Self.line(#"{"token":"ab01","payload":{"aps":{}}}"#))
    #expect(Self.token(line, text) == nil)
  }

  @Test(
    "references of any length and identifiers of devices may differ as well",
    arguments: [
      (
        #"{"token":"ab01","reference":"order 1","payload":{}}"#,
        #"{"token":"cd02","reference":"order 1234","payload":{}}"#, ["cd02", "-", "order 1234"]
      ),
      (
        #"{"reference":"","payload":{"reference":"x"},"deviceId":"1-2"}"#,
        #"{"reference":"a}","payload":{"reference":"x"},"deviceId":"3-4"}"#, ["-", "3-4", "a}"]
      ),
      (
        #"{"deviceId":"1","payload":{},"reference":"é"} "#, #"{"deviceId":"2","payload":{},"reference":""} "#,
        ["-", "2", ""]
      ),
      (
        #"{"token":"ab","deviceId":null,"reference":"x"}"#, #"{"token":"cd","deviceId":null,"reference":"yz"}"#,
        ["cd", "-", "yz"]
      ),
    ])
  func others(first: String, second: String, parts: [String]) throws {
    let line = try #require(Self.line(first))
    #expect(Self.parts(line, second) == parts)
  }

  @Test(
    "a reference that has to be parsed, or is followed by something else, is not recognised",
    arguments: [
      #"{"token":"cd","reference":"a\nb"}"#, #"{"token":"cd","reference":"é"}"#,
      "{\"token\":\"cd\",\"reference\":\"\t\"}",
      #"{"token":"cd","reference":"a","reference":"b"}"#, #"{"token":"cd","reference":"a}"#,
      #"{"token":"cd","reference":"a"}}"#, #"{"token":"cd","reference":null}"#, #"{"token":"cd"}"#,
      #"{"token":"cd","reference":"a"#, #"{"token":"cd","refe"#,
    ])
  func otherReferences(text: String) throws {
    let line = try #require(Self.line(#"{"token":"ab","reference":"a"}"#))
    #expect(Self.parts(line, #"{"token":"cd","reference":"long enough for the others"}"#) != nil)
    #expect(Self.parts(line, text) == nil)
  }

  @Test(
    "an object without a plain token has no shape",
    arguments: [
      #"{"payload":{"token":"ab01"}}"#, #"{"token":7}"#, #"{"token":""}"#, #"{"token":"a\u0062"}"#,
      #"{"token":"ab","token":"cd"}"#, #"{"token":"ab","re\u0066erence":"x"}"#, #"{"reference":"ab"}"#,
      #"{"token":"ab""#, #"["token","ab"]"#, "", "7",
    ])
  func shapeless(text: String) {
    #expect(Self.line(text) == nil)
  }

  @Test("what is recognised is the same JSON but for its token", arguments: 0..<300 as Range<UInt64>)
  func property(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    func text(_ token: String, _ random: inout SeededGenerator) -> String {
      let space = random.chance(30) ? " " : ""
      let body = String(repeating: "é\\n\\\"", count: Int.random(in: 0..<3, using: &random))
      let members = [#""token":\#(space)"\#(token)""#, #""payload":{"aps":{"alert":"\#(body)"}}"#, #""priority":5"#]
      let order = random.chance(50) ? members : members.reversed()
      return "{" + order.joined(separator: ",") + space + "}"
    }
    let first = text("ab01", &random)
    let second = text(random.chance(50) ? "cd02" : "<cd 02", &random)
    let line = try #require(Self.line(first), "seed \(seed): \(first)")
    guard let found = Self.token(line, second) else { return }
    #expect(found == TokenBytes(bytes: [0xCD, 2]), "seed \(seed)")
    func rest(_ text: String) throws -> [JSONMember] {
      guard case .object(let members) = try JSONValue(parsing: Self.bytes(text)[...]) else { return [] }
      return members.filter { $0.key != "token" }
    }
    #expect(try rest(first) == rest(second), "seed \(seed): \(first) and \(second)")
  }

  @Test("the end of a line is the next line feed, at any distance", arguments: 0..<40)
  func lineEnds(count: Int) {
    let filler = [UInt8](repeating: 0x0B, count: count)
    #expect(JSONScanner.lineEnd([0x0A] + filler + [0x0A, 0x0A, 0x09], from: 1) == count + 1)
    #expect(JSONScanner.lineEnd([0x0A] + filler, from: 1) == count + 1)
    #expect(JSONScanner.lineEnd([0x0A] + [UInt8](repeating: 0x8A, count: count) + [0x0A], from: 1) == count + 1)
  }

  @Test("the elements of an array are found as they are written")
  func elements() throws {
    let text = Self.bytes(#" [ {"a":[1,{}]} ,"x]", 12,true,false, null,[[ ]] ,{}]"#)
    let found = try #require(try JSONScanner.elements(text)).map { String(decoding: text[$0], as: UTF8.self) }
    #expect(found == [#"{"a":[1,{}]}"#, #""x]""#, "12", "true", "false", "null", "[[ ]]", "{}"])
    #expect(try JSONScanner.elements(Self.bytes("[]"))?.isEmpty == true)
    #expect(try JSONScanner.elements(Self.bytes("{}")) == nil)
    for text in ["[", "[1", "[1,]", "[1] 2", "[{]"] {
      #expect(throws: JSONError.self) { try JSONScanner.elements(Self.bytes(text)) }
    }
  }
}
