internal import Carillon
internal import PushGateway
internal import Support
internal import Testing

@testable internal import CarillonCommand

/// Fault rules read from YAML.
struct FaultRulesFileTests {
  private let place: Workplace

  init() throws { place = try Workplace() }

  private func read(_ text: String, overrides: [String: RuleTree] = [:]) throws -> FaultRules {
    try FaultRules.read(file: place.write(text, to: "rules.yaml"), overrides: overrides)
  }

  @Test("overrides replace keys at the top, and single keys under http2")
  func overrides() throws {
    let text = """
      answer-delay: 200ms
      latency: 10ms
      http2: { goaway: { after: 5, reason: Shutdown }, poison: [ { prefixes: [dead] } ] }
      """
    let rules = try read(
      text, overrides: ["latency": "20ms", "http2": ["poison": [["prefixes": ["beef"]]]]])
    #expect(rules.common.answerDelay == .milliseconds(200))
    #expect(rules.latency == .milliseconds(20))
    let same = try read(
      text.replacing("dead", with: "beef").replacing("latency: 10ms", with: "latency: 20ms"))
    #expect(rules == same)
    #expect(try read(text) != same)
  }

  @Test("the path of a key starts at the folder of the file")
  func keyPath() throws {
    let rules = try read("http2: { keys: [ { file: key.p8, key-id: ABC123DEFG, team-id: DEF123GHIJ } ] }\n")
    #expect(rules.service.keys.map(\.file) == [place.path("key.p8")])
  }

  @Test(
    "an error names file, line and key",
    arguments: [
      ("answer-delay: 1s\nrefuse:\n  - { prefixes: [zz] }\n", "rules.yaml:3: refuse[0].prefixes"),
      ("- 1\n", "rules.yaml:1: must hold keys and values"),
    ])
  func errors(text: String, expected: String) {
    let error = #expect(throws: ConfigurationError.self) { try read(text) }
    #expect(error?.description.contains(expected) == true, "\(String(describing: error))")
  }
}
