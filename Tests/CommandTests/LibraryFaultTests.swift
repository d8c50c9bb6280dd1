internal import Foundation
internal import Support
internal import Testing

extension JournalCampaigns {
  /// A call of the C library fails below the command: an allocation of OpenSSL or LZ4, a call of
  /// the system. The account stays exact, or the command says in a sentence why it could not run.
  @Suite("A campaign when a call below it fails", .serialized, .timeLimit(.minutes(20)))
  struct LibraryFaultTests {
    /// Whose calls fail.
    struct Calls: CustomTestStringConvertible, Sendable {
      let callers: String
      let names: [String]
      var testDescription: String { "\(names.joined(separator: ", ")) of \(callers)" }
    }

    private static let system = [
      "read", "write", "open", "fstat", "sync", "ftruncate", "socket", "connect", "setsockopt",
    ]
    private static let all = [
      Calls(callers: "libcrypto+libssl", names: ["memory"]), Calls(callers: "liblz4", names: ["memory"]),
      Calls(callers: "program", names: system), Calls(callers: "libFoundation", names: system),
    ]
    /// Of each of these one at random fails, once and always; with `CARILLON_EVERY_FAULT=1` 300.
    private static let sampleCount =
      (ProcessInfo.processInfo.environment["CARILLON_EVERY_FAULT"] ?? "").isEmpty ? 1 : 300

    private static func library(in place: Workplace) async throws -> String {
      let source = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Fixtures/Faults.c")
      let path = place.path("faults.so")
      let made = try await ChildProcess.run(
        ["-shared", "-fPIC", "-O1", "-o", path, source.path(percentEncoded: false), "-ldl"], program: "clang")
      #expect(made.status == 0, "\(made)")
      return path
    }

    private static func preparation(_ library: String, _ fault: String) -> String {
      "export LD_PRELOAD='\(library)' CARILLON_FAULT='\(fault)' CARILLON_FAULT_COUNT=faults; "
        + "export SWIFT_BACKTRACE=enable=no; exec"
    }

    @Test("once or always, it changes no account", arguments: all)
    func campaign(_ calls: Calls) async throws {
      let tools = try Workplace()
      let library = try await Self.library(in: tools)
      var random = SeededGenerator.fresh()
      for name in calls.names {
        let count = try await Self.attempt(library, calls.callers, name, failing: 0, kind: "once", &random)
        guard count > 0 else { continue }
        for _ in 0..<Self.sampleCount {
          for kind in ["once", "always"] {
            let failing = Int.random(in: 1...count, using: &random)
            _ = try await Self.attempt(library, calls.callers, name, failing: failing, kind: kind, &random)
          }
        }
      }
    }

    /// - Returns: how many such calls there were.
    private static func attempt(
      _ library: String, _ callers: String, _ name: String, failing: Int, kind: String, _ random: inout SeededGenerator
    ) async throws -> Int {
      let fault = "\(callers):\(name):\(failing):\(kind)"
      let shape = TestAudience.Shape(count: 300, refusedCount: 5, malformedCount: 3)
      let site = try await JournalSite(JournalSite.Settings(patience: "3s"), audiences: [(0, shape)], using: &random)
      let ending = await (try site.start(site.sendArguments(), preparation: preparation(library, fault))).ending()
      #expect((0...3).contains(ending.status), "\(fault): \(ending)")
      #expect(failing > 0 || ending.status == 1, "\(ending)")
      var last = ending
      if SentAccount(ending) == nil || ending.errors.contains("resume with") {
        // Nothing that it writes arrives, not even a sentence.
        let isMute = name == "write" && kind == "always"
        if SentAccount(ending) == nil, !isMute {
          #expect(ending.status >= 2, "\(fault): \(ending)")
          #expect(ending.errors.contains("carillon: "), "\(fault): \(ending)")
        }
        // What was not sent is in the journal, if there is one.
        last = try await site.resume()
        if SentAccount(last) == nil { last = try await site.send() }
      }
      #expect(try await site.truth(last).problems().isEmpty, "\(fault): \(ending)\nresumed: \(last)")
      // What was killed, or crashed, has not counted.
      let count = (try? site.place.read("faults")) ?? ""
      return Int(count.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0
    }
  }
}
