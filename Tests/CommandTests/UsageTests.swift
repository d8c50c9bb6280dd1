internal import Foundation
internal import Support
internal import Testing

/// Flags, help, and errors in files and flags.
struct UsageTests {
  @Test(
    "each command's help explains it with an example, on standard output",
    arguments: [
      [], ["send"], ["simulate"], ["bench"], ["feedback"], ["credential", "inspect"], ["payload", "check"], ["channel"],
      ["channel", "create"],
      ["channel", "list"], ["channel", "read"], ["channel", "delete"],
    ])
  func help(command: [String]) async throws {
    let ending = try await ChildProcess.run(command + ["--help"])
    #expect(ending.status == 0, "\(ending)")
    #expect(ending.errors.isEmpty, "\(ending)")
    #expect(ending.output.contains("  carillon \(command.joined(separator: " "))"), "\(ending)")
  }

  @Test("--version names the commit and the packages that the program was built from")
  func version() async throws {
    let ending = try await ChildProcess.run(["--version"])
    #expect(ending.status == 0, "\(ending)")
    let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
    guard FileManager.default.fileExists(atPath: root.appending(path: ".git").path) else { return }
    let line = /carillon [0-9.]+ \(([0-9a-f]{12})(\+changes)?\), API version 1\n/
    let head = try #require(ending.output.prefixMatch(of: line), "\(ending)")
    #expect(ending.output.contains(/swift-nio [0-9]+\.[0-9]+\.[0-9]+/), "\(ending)")
    let known = try await ChildProcess.run(
      ["-c", "safe.directory=*", "-C", root.path, "cat-file", "-e", String(head.1)],
      program: "/usr/bin/git")
    #expect(known.status == 0, "\(known)")
  }

  @Test("the flags of send stand in groups")
  func groups() async throws {
    let help = try await ChildProcess.run(["send", "--help"]).output
    let titles = help.split(separator: "\n").filter { $0.last == ":" && $0.allSatisfy { !$0.isLowercase } }
    #expect(
      titles == [
        "WHAT IS SENT:", "THE GATEWAY:", "THE CREDENTIAL:", "THE BINARY PROTOCOL:", "THE JOURNAL:", "RESULTS:",
        "OPTIONS:",
      ])
  }

  @Test("no command line in a help text is broken at 80 columns, so that each can be copied")
  func examples() async throws {
    let dump = try await ChildProcess.run(["--experimental-dump-help"])
    let root = try #require(try JSONSerialization.jsonObject(with: Data(dump.output.utf8)) as? [String: Any])
    var paths: [[String]] = []
    func look(_ command: [String: Any], _ path: [String]) {
      paths.append(path)
      for subcommand in command["subcommands"] as? [[String: Any]] ?? [] {
        if let name = subcommand["commandName"] as? String, name != "help" { look(subcommand, path + [name]) }
      }
    }
    look(try #require(root["command"] as? [String: Any]), [])
    var exampleCount = 0
    for path in paths {
      let lines = try await ChildProcess.run(path + ["--help"]).output.split(
        separator: "\n", omittingEmptySubsequences: false)
      for (line, next) in zip(lines, lines.dropFirst()) where line.hasPrefix("  carillon ") || line.hasPrefix("  curl ")
      {
        exampleCount += 1
        #expect(next.isEmpty || next.hasPrefix(" "), "\(path): \(line)\n\(next)")
      }
    }
    #expect(exampleCount > 20)
  }

  @Test("every flag of every command has help")
  func everyFlag() async throws {
    let ending = try await ChildProcess.run(["--experimental-dump-help"])
    let root = try #require(try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any])
    var flags = 0
    func look(_ command: [String: Any]) {
      let name = command["commandName"] as? String ?? ""
      #expect((command["abstract"] as? String)?.isEmpty == false, "\(name) has no abstract")
      for argument in command["arguments"] as? [[String: Any]] ?? [] {
        flags += 1
        #expect(
          (argument["abstract"] as? String)?.isEmpty == false,
          "\(name): \(argument["valueName"] ?? argument) has no help")
      }
      for subcommand in command["subcommands"] as? [[String: Any]] ?? []
      where subcommand["commandName"] as? String != "help" { look(subcommand) }
    }
    look(try #require(root["command"] as? [String: Any]))
    #expect(flags > 50)
  }

  @Test(
    "a wrong flag gives one sentence on standard error and exit status 2",
    arguments: [
      (["send", "--tokenz", "x"], "--tokenz"), (["send"], "The payload is missing: --payload FILE"),
      (["bogus"], "carillon has no command \"bogus\"; there are send, init"),
      (["sned"], "carillon has no command \"sned\"; did you mean \"carillon send\"?"),
      (["app", "nope"], "carillon app has no command \"nope\"; there are pause, resume."),
      (["campaign", "strat", "x"], "did you mean \"carillon campaign start\"?"),
      (["key", "create", "--config", "c", "--name", "n", "--scope", "sned"], "send, campaigns, devices"),
      (
        ["send", "--payload", "p", "--tokens", "t", "--gateway", "h:1", "--certificate", "c", "--rate-limit", "fast"],
        "--rate-limit must be a rate such as 5000/s or 300/m, not \"fast\""
      ),
      (
        ["send", "--payload", "p", "--tokens", "t", "--config", "c", "--rate-limit", "5/s"],
        "--rate-limit and --config exclude each other"
      ),
      (
        ["send", "--payload", "p", "--tokens", "t", "--gateway", "h:1", "--certificate", "c", "--patience", "2w"],
        "its units are us, ms, s, m, h and d"
      ),
      (["send", "--payload", "p", "--tokens", "t"], "The gateway is missing: --gateway HOST:PORT or --config FILE"),
      (["send", "--payload", "p", "--tokens", "t", "--gateway", "nowhere"], "--gateway must be HOST:PORT"),
      (["send", "--payload", "p", "--tokens", "t", "--gateway", "h:1"], "A credential is missing: --certificate FILE"),
      (
        ["send", "--payload", "p", "--tokens", "t", "--gateway", "h:1", "--certificate", "c", "--connections", "0"],
        "--connections must be from 1 to 1000, not 0"
      ),
      (
        ["send", "--payload", "p", "--tokens", "t", "--gateway", "h:1", "--certificate", "c", "--command", "3"],
        "--command must be 0, 1 or 2, not 3"
      ),
      (
        ["send", "--payload", "p", "--tokens", "t", "--gateway", "h:1", "--certificate", "c", "--priority", "7"],
        "--priority must be 5 or 10, or 1 over HTTP/2, not 7"
      ),
      (
        ["send", "--payload", "p", "--tokens", "t", "--gateway", "h:1", "--certificate", "c", "--expiration", "soon"],
        "--expiration must be seconds from now"
      ),
      (
        ["send", "--payload", "p", "--tokens", "t", "--gateway", "h:1", "--certificate", "c", "--confirm", "maybe"],
        "maybe"
      ),
      (
        ["send", "--payload", "p", "--tokens", "t", "--gateway", "h:1", "--certificate", "c", "--settle-quiet", "x"],
        "--settle-quiet must be a duration"
      ),
      (
        ["send", "--payload", "p", "--tokens", "t", "--config", "c", "--command", "1"],
        "--command and --config exclude each other"
      ),
      (["send", "--campaign", "x"], "--campaign needs --config"),
      (["send", "--campaign", "x", "--config", "c", "--tokens", "t"], "--tokens and --campaign exclude each other"),
      (["simulate", "--gateway-port", "70000"], "--gateway-port must be a port"),
      (["simulate", "--refuse-prefix", "xyz"], "--refuse-prefix:"),
      (["simulate", "--refuse-status", "7"], "--refuse-status needs"),
      (["simulate", "--key", "k"], "--key needs --certificate"),
      (["simulate", "--latency", "2m"], "--latency: is more than a minute"),
      (["simulate", "--outage-from", "1s"], "--outage-from needs --outage-for"),
      (["simulate", "--poison-token", "x"], "--poison-token:"),
      (["simulate", "--garbage-after", "-1"], "--garbage-after"),
      (["simulate", "--environment", "test"], "--environment:"),
      (["bench", "--latency", "20ms,x"], "--latency must be a value or a list"),
      (["bench", "--latency", "1h"], "--latency must be from 0ms to 10s"),
      (["bench", "--latency", "100us"], "--latency must be whole milliseconds"),
      (["bench", "--gateway", "h:1", "--latency", "20ms"], "--latency needs the built-in simulator"),
      (["feedback"], "The service is missing: --service HOST:PORT or --config FILE"),
      (["feedback", "--service", "h:1"], "A credential is missing: --certificate FILE"),
      (["payload", "check", "x", "--command", "9"], "--command must be 0, 1 or 2, not 9"),
      (
        ["payload", "check", "x", "--command", "1", "--push-type", "voip"],
        "--command and --push-type exclude each other"
      ),
      (["payload", "check", "x", "--priority", "1"], "--priority 1 needs HTTP/2"),
    ])
  func wrongFlags(arguments: [String], expected: String) async throws {
    let ending = try await ChildProcess.run(arguments)
    expectOneSentence(ending, status: 2, containing: expected)
  }

  @Test("a payload is checked, with its findings in order of the file")
  func payloadCheck() async throws {
    let place = try Workplace()
    try place.write(#"{"aps":{"alert":"Hello {{name}}","badge":"1"}}"#, to: "bad.json")
    try place.write(#"{"aps":{"alert":"Hello {{name}}","badge":1}}"#, to: "good.json")
    try place.write(#"{"aps":{"content-available":1}}"#, to: "silent.json")
    try place.write("{\n\"aps\": {{name}}}", to: "outside.json")
    let bad = try await ChildProcess.run(["payload", "check", "bad.json"], directory: place.url)
    #expect(bad.status == 1, "\(bad)")
    #expect(bad.output.contains("error at $.aps.badge: It must be a whole number"), "\(bad)")
    let good = try await ChildProcess.run(["payload", "check", "good.json", "--json"], directory: place.url)
    #expect(good.status == 0, "\(good)")
    #expect(
      good.output == #"{"file":"good.json","good":true,"bytes":37,"limit":2048,"columns":["name"],"findings":[]}"#
        + "\n", "\(good)")
    let wide = try await ChildProcess.run(
      ["payload", "check", "good.json", "--push-type", "alert", "--priority", "1"], directory: place.url)
    #expect(wide.status == 0, "\(wide)")
    #expect(wide.output.contains("37 of 4096 bytes for HTTP/2"), "\(wide)")
    let background = try await ChildProcess.run(
      ["payload", "check", "silent.json", "--push-type", "background", "--priority", "10"], directory: place.url)
    #expect(background.status == 1, "\(background)")
    #expect(background.output.contains("must have priority 5, not 10"), "\(background)")
    #expect(
      try await ChildProcess.run(["payload", "check", "silent.json", "--broadcast"], directory: place.url).status == 1)
    #expect(
      try await ChildProcess.run(["payload", "check", "silent.json", "--priority", "10"], directory: place.url).status
        == 1)
    #expect(
      try await ChildProcess.run(["payload", "check", "silent.json", "--priority", "5"], directory: place.url).status
        == 0)
    expectOneSentence(
      try await ChildProcess.run(["payload", "check", "outside.json"], directory: place.url), status: 2,
      containing: "outside.json, line 2, column 8")
    expectOneSentence(
      try await ChildProcess.run(["payload", "check", "none.json"], directory: place.url), status: 2,
      containing: "none.json: cannot be read: there is no such file")
  }
}

extension Ending {
  /// What was said on standard error, but for the line with which the log of a service begins.
  var sentences: [Substring] { errors.split(separator: "\n").filter { !$0.contains("carillon starts") } }
}

/// Expects nothing on standard output, and one line on standard error that is not a stack trace.
func expectOneSentence(
  _ ending: Ending, status: Int32, containing expected: String, sourceLocation: SourceLocation = #_sourceLocation
) {
  #expect(ending.status == status, "\(ending)", sourceLocation: sourceLocation)
  #expect(ending.output.isEmpty, "\(ending)", sourceLocation: sourceLocation)
  #expect(ending.sentences.count == 1, "\(ending)", sourceLocation: sourceLocation)
  #expect(ending.sentences.first?.hasPrefix("carillon: ") == true, "\(ending)", sourceLocation: sourceLocation)
  #expect(ending.errors.contains(expected), "\(ending)", sourceLocation: sourceLocation)
}
