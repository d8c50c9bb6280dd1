internal import Foundation
internal import Support
internal import Testing

@Suite("carillon init", .timeLimit(.minutes(10)))
struct InitTests {
  /// The first of the ports that `init` writes down.
  private static func freePort() -> Int { OwnPort.random(count: 3) }

  @Test("what init --try prints sends a notification that is delivered, in one copy")
  func trial() async throws {
    let place = try Workplace()
    let port = Self.freePort()
    let made = try await ChildProcess.run(["init", "demo", "--try", "--port", String(port)], directory: place.url)
    #expect(made.status == 0, "\(made)")
    let mode = try FileManager.default.attributesOfItem(atPath: place.path("demo/api.key"))[.posixPermissions] as? Int
    #expect(mode == 0o600)
    let block = made.output.split(separator: "\n").dropFirst().joined(separator: "\n")
    try place.write(block + "\nsh demo/stop.sh\n", to: "block.sh")
    // Into a file: what the block starts in the background keeps the descriptors.
    _ = try await ChildProcess.run(
      ["block.sh"], program: "sh", directory: place.url, redirection: ">block.out 2>&1")
    let text = try place.read("block.out")
    #expect(text.contains(#""state":"finished","outcome":"accepted""#), "\(text)")
    #expect(text.contains(#""id":"news""#), "\(text)")

    let again = try await ChildProcess.run(["init", "demo"], directory: place.url)
    #expect(again.status == 2, "\(again)")
    #expect(again.errors.contains("demo/carillon.yaml exists"), "\(again)")
  }

  @Test("what init writes is a configuration in which only the credential is missing")
  func configuration() async throws {
    let place = try Workplace()
    let made = try await ChildProcess.run(
      ["init", "mine", "--port", String(Self.freePort())], directory: place.url)
    #expect(made.status == 0, "\(made)")
    #expect(made.output.contains("curl"), "\(made)")
    let checked = try await ChildProcess.run(
      ["serve", "--config", "mine/carillon.yaml", "--check"], directory: place.url)
    #expect(checked.status == 0, "\(checked)")
    #expect(checked.output.contains(/error: app news: it would begin suspended, .*AuthKey_ABC123DEFG.p8/), "\(checked)")
    #expect(checked.output.contains("The service would start, but one app has an error."), "\(checked)")
  }

  @Test("what init writes as comments are settings as they are, and it has every kind of them")
  func comments() async throws {
    let place = try Workplace()
    let made = try await ChildProcess.run(
      ["init", "mine", "--port", String(Self.freePort())], directory: place.url)
    #expect(made.status == 0, "\(made)")
    let needsFile = ["certificate", "key", "credential", "feedback"]
    var settings: Set<String> = []
    let lines = try place.read("mine/carillon.yaml").split(separator: "\n", omittingEmptySubsequences: false).map {
      line -> String in
      guard let found = line.wholeMatch(of: /( *)# ([a-z-]+)(: .*)/) else { return String(line) }
      settings.insert(String(found.2))
      return needsFile.contains(String(found.2)) ? String(line) : "\(found.1)\(found.2)\(found.3)"
    }
    try place.write(lines.joined(separator: "\n"), to: "mine/carillon.yaml")
    let checked = try await ChildProcess.run(
      ["serve", "--config", "mine/carillon.yaml", "--check"], directory: place.url)
    #expect(checked.status == 0, "\(checked)")
    #expect(
      settings.isSuperset(of: [
        "max-body", "max-connections", "idle-timeout", "rate-limit", "hosts", "store", "retention", "shutdown", "log",
        "queue", "connections", "weight", "time-zone", "quiet-hours", "caps", "holdout-percent",
        "feedback",
      ]), "\(settings)")
  }
}
