internal import Foundation
internal import Support
internal import Testing

@Suite("The memory of carillon serve", .timeLimit(.minutes(10)))
struct ServeSecretsTests {
  /// The last number of a limit in `/proc`, and who owns the process's files there.
  private static func state(_ process: any TestProgram) throws -> (coreLimit: String, isDumpable: Bool) {
    let folder = "/proc/\(process.identifier)"
    let limits = try String(contentsOfFile: "\(folder)/limits", encoding: .utf8)
    let core = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") })
    let fields = core.split(separator: " ")
    // The kernel gives the files of a process that has hidden its memory to root.
    let owner = try FileManager.default.attributesOfItem(atPath: "\(folder)/maps")[.ownerAccountID] as? Int
    return (String(fields[5]), owner != 0)
  }

  @Test("no core file and no debugger of its user sees the keys, unless it was asked for")
  func hidden() async throws {
    let running = try await RunningServe()
    let hidden = try Self.state(running.service.process)
    #expect(hidden.coreLimit == "0")
    try await running.end()
    // Whether a debugger sees it can only be told for another user than root.
    guard getuid() == 0 else { return #expect(!hidden.isDumpable) }
    let place = running.serve.site.place
    _ = try await ChildProcess.run(["-R", "65534", place.path("")], program: "chown", directory: place.url)
    for (flags, isDumpable) in [([String](), false), (["--debuggable"], true)] {
      let process = try ChildProcess(
        ["serve", "--config", "carillon.yaml", "--json"] + flags, directory: place.url,
        preparation: "exec setpriv --reuid 65534 --clear-groups")
      _ = try #require(await process.line(0), "it does not serve: \(process.errors)")
      #expect(try Self.state(process).isDumpable == isDumpable, "\(flags)")
      process.send(SIGTERM)
      #expect(await process.ending().status == 0)
    }
  }
}
