internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// `carillon verify`: its table and exit status, and campaigns that were really sent.
struct VerifyTests {
  private let place: Workplace

  init() throws { place = try Workplace() }

  private func verify(
    _ change: (inout VerificationFiles) -> Void = { _ in }, _ arguments: [String] = []
  ) async throws -> Ending {
    var files = VerificationFiles()
    change(&files)
    try files.write(to: place)
    return try await ChildProcess.run(
      ["verify", "--account", "account.json", "--outcomes", "list.csv", "--record", "record.jsonl"] + arguments,
      directory: place.url)
  }

  @Test("files that agree give a table, what was compared, and exit status 0")
  func equal() async throws {
    let ending = try await verify()
    #expect(ending.status == 0, "\(ending)")
    #expect(
      ending.output == """
        \("                             account  list  record")
        news                              11                submitted
          accepted                         9     -       9  agrees
          rejected: 8 invalid token        1     1       1  agrees
          rejected: malformed token        1     1       -  agrees
        Compared 10 lines of the record and 2 rows of the list, one by one, and the counts above: all agree.

        """)
    let json = try await verify({ _ in }, ["--json"])
    #expect(json.status == 0, "\(json)")
    #expect(json.output.hasPrefix(#"{"agrees":true,"recordLines":10,"listRows":2,"#), "\(json)")
  }

  @Test("differences are listed, with exit status 1")
  func differences() async throws {
    let ending = try await verify { $0.list.removeFirst() }
    #expect(ending.status == 1, "\(ending)")
    #expect(ending.output.contains("was refused with 8, and is not listed"), "\(ending)")
  }

  @Test("files that are none of the three are named, with exit status 2")
  func badFiles() async throws {
    expectOneSentence(
      try await verify { $0.account = "[]" }, status: 2, containing: "account.json is not an account in JSON")
    expectOneSentence(
      try await verify { $0.list.append("12,ab") }, status: 2, containing: "row 3 of list.csv is no row")
    expectOneSentence(try await verify { $0.record[4] = "{}" }, status: 2, containing: "record.jsonl:5 is no line")
    expectOneSentence(
      try await verify { $0.record[9] = "{\"app\":\"com.example.news\",\"tok" }, status: 2,
      containing: "record.jsonl:10")
    let missing = try await ChildProcess.run(
      ["verify", "--account", "none.json", "--outcomes", "list.csv", "--record", "record.jsonl"], directory: place.url)
    expectOneSentence(missing, status: 2, containing: "none.json: cannot be read")
  }

  // MARK: What was really sent

  @Test("a campaign over HTTP/2 agrees with its service, and no longer when its list is changed")
  func http2() async throws {
    let site = try HTTP2Site()
    let service = try await site.simulate(
      rules: """
        http2:
          refuse:
            - { prefixes: [dead], reason: Unregistered }
            - { every: 7, reason: TooManyRequests, times: 1 }
        """)
    let tokens = (1...60).map { HTTP2Site.token($0, prefix: $0 % 10 == 0 ? "dead" : "00") } + ["nonsense"]
    try site.place.write(tokens.joined(separator: "\n") + "\n", to: "tokens.txt")
    let sent = try await site.send(
      service, ["--payload", "hello.json", "--tokens", "tokens.txt", "--outcomes", "list.csv", "--json"])
    #expect(sent.status == 1, "\(sent)")
    service.simulator.send(SIGTERM)
    _ = await service.simulator.ending()
    try site.place.write(sent.output, to: "account.json")
    let arguments = ["verify", "--account", "account.json", "--outcomes", "list.csv", "--record", "truth.jsonl"]
    let equal = try await site.run(arguments)
    #expect(equal.status == 0, "\(equal)")
    #expect(equal.output.contains("rejected: 410 Unregistered"), "\(equal)")
    let list = try site.place.read("list.csv")
    try site.place.write(list.replacing("410 Unregistered", with: "400 BadDeviceToken"), to: "list.csv")
    let different = try await site.run(arguments)
    #expect(different.status == 1, "\(different)")
    #expect(different.output.contains("but was refused with 410 Unregistered"), "\(different)")
  }

  @Test("a campaign over the binary protocol agrees with its gateway, and no longer when a row is gone")
  func binary() async throws {
    let certificates = try CertificateFixture(in: place)
    let simulator = try ChildProcess(
      [
        "simulate", "--gateway-port", "0", "--feedback-port", "0", "--json", "--record", "record.jsonl",
        "--refuse-prefix",
        "dead",
      ] + certificates.server, directory: place.url)
    let line = try #require(await simulator.line(0), "the simulator did not start: \(simulator.errors)")
    let port = try #require(line.firstMatch(of: /"gateway":(\d+)/)).1
    try place.write(#"{"aps":{"alert":"Hello"}}"#, to: "hello.json")
    let tokens = (1...60).map { HTTP2Site.token($0, prefix: $0 % 20 == 0 ? "dead" : "00") } + ["nonsense"]
    try place.write(tokens.joined(separator: "\n") + "\n", to: "tokens.txt")
    let sent = try await ChildProcess.run(
      [
        "send", "--gateway", "localhost:\(port)", "--payload", "hello.json", "--tokens", "tokens.txt", "--outcomes",
        "list.csv",
        "--json",
      ] + certificates.client, directory: place.url)
    #expect(sent.status == 1, "\(sent)")
    simulator.send(SIGTERM)
    _ = await simulator.ending()
    try place.write(sent.output, to: "account.json")
    let arguments = ["verify", "--account", "account.json", "--outcomes", "list.csv", "--record", "record.jsonl"]
    let equal = try await ChildProcess.run(arguments, directory: place.url)
    #expect(equal.status == 0, "\(equal)")
    #expect(equal.output.contains("rejected: 8 invalid token"), "\(equal)")
    let rows = try place.read("list.csv").split(separator: "\n", omittingEmptySubsequences: false)
    try place.write(rows.filter { !$0.hasPrefix("20,") }.joined(separator: "\n"), to: "list.csv")
    let different = try await ChildProcess.run(arguments, directory: place.url)
    #expect(different.status == 1, "\(different)")
    #expect(different.output.contains("was refused with 8, and is not listed"), "\(different)")
  }
}
