internal import Foundation
internal import Support
internal import Testing

extension JournalCampaigns {
  /// `carillon send --journal` on a disk without room: with a limit on file sizes, and on a small
  /// tmpfs.
  @Suite("A journal on a full disk", .serialized, .timeLimit(.minutes(20)))
  struct JournalDiskTests {
    /// Slow enough that the disk is full before everything has been taken in.
    private static let paced = JournalSite.Settings(rate: 10_000)

    /// The file size limit, in the shell's unit of 512 bytes.
    private static func limited(_ blockCount: Int) -> String { "ulimit -f \(blockCount) && exec" }

    /// Expects one sentence that names the file and the reason, and says how to resume.
    private func expectAdvice(
      _ ending: Ending, _ reason: String, sync: String = "interval", sourceLocation: SourceLocation = #_sourceLocation
    ) {
      // 3: the disk was full before any notification had its outcome.
      let settled =
        SentAccount(ending)?.apps.values.map { $0.acceptedTotal + ($0.rejected.byReason["8 invalid token"] ?? 0) }
        .reduce(0, +) ?? 0
      #expect(ending.status == (settled > 0 ? 1 : 3), "\(ending)", sourceLocation: sourceLocation)
      let sentence =
        "carillon: \(reason); sending has stopped. When the cause is removed, resume with \(JournalSite.advice(sync))\n"
      // Lines of progress may come before it.
      #expect(ending.errors.hasSuffix(sentence), "\(ending)", sourceLocation: sourceLocation)
      #expect(!ending.hasForeignLines, "\(ending)", sourceLocation: sourceLocation)
    }

    @Test(
      "a full disk stops the intake with an exact account, and resuming with room ends exactly",
      arguments: ["always", "interval", "never"])
    func fileSizeLimit(sync: String) async throws {
      var random = SeededGenerator(seed: 7)
      // With personal payloads the journal takes more room than the list of outcomes.
      let shape = TestAudience.Shape(
        count: 4_000, isPersonal: true, nameByteCount: 600, refusedCount: 2, malformedCount: 10)
      let site = try await JournalSite(Self.paced, audiences: [(0, shape), (1, shape)], using: &random)
      let sent = try await site.send(["--sync", sync], preparation: Self.limited(4_000))
      expectAdvice(
        sent, "the journal has stopped: cannot write journal/segment-000000000001.lz4: File too large", sync: sync)
      #expect(try site.truthSoFar(sent).problems().isEmpty)
      let arrived = await site.gateway.acceptedCount
      #expect(arrived < 7_900)
      // A record that the disk had no room for is not damage.
      #expect(try await site.journal("verify").status == 0)
      let resumed = try await site.resume()
      #expect(resumed.status == 1, "\(resumed)")
      #expect(resumed.errors.contains("half-written bytes"), "\(resumed)")
      #expect(resumed.errors.contains("if anything else has cut the file, "), "\(resumed)")
      #expect(try await site.truth(resumed).problems().isEmpty)
    }

    @Test("a disk that is full several times costs only time")
    func fullAgain() async throws {
      let site = try await JournalSite.simple(Self.paced, count: 4_000, nameByteCount: 600)
      var ending = try await site.send(preparation: Self.limited(2000))
      var count = 1
      while ending.errors.contains(": File too large; sending has stopped"), count < 12 {
        #expect(try site.truthSoFar(ending).problems().isEmpty)
        ending = try await site.run(JournalSite.resumeArguments, preparation: Self.limited(2000 + 1000 * count))
        count += 1
      }
      #expect(ending.status == 0, "\(ending)")
      #expect(count > 2, "\(ending)")
      #expect(try await site.truth(ending).problems().isEmpty)
    }

    @Test("without room at the start nothing is sent")
    func noRoomAtAll() async throws {
      let site = try await JournalSite.simple(count: 100)
      // Room for a sentence on standard error, and for the header of a segment.
      let sent = try await site.send(preparation: Self.limited(1))
      expectOneSentence(
        sent, status: 3,
        containing: "the journal has stopped: cannot write journal/segment-000000000001.lz4: File too large")
      #expect(await site.gateway.acceptedCount == 0)
      #expect(try await site.send().status == 0)
    }

    @Test("a list of outcomes that cannot be written stops the intake too, so that no row is missing")
    func outcomes() async throws {
      var random = SeededGenerator(seed: 9)
      let shape = TestAudience.Shape(count: 40_000, refusedCount: 5, malformedCount: 40_000)
      let site = try await JournalSite(JournalSite.Settings(), audiences: [(0, shape)], using: &random)
      // The rows take more room than the journal.
      let sent = try await site.send(preparation: Self.limited(1000))
      expectAdvice(sent, "the list of outcomes outcomes.csv cannot be written: File too large")
      let resumed = try await site.resume()
      #expect(resumed.status == 1, "\(resumed)")
      #expect(try await site.truth(resumed).problems().isEmpty)
    }

    // MARK: tmpfs

    /// Whether this user may mount one in a namespace of its own, which ends with the process.
    private static let mayMount: Bool = {
      let process = Process()
      process.executableURL = URL(filePath: "/usr/bin/env")
      process.arguments = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
      process.standardError = FileHandle.nullDevice
      guard (try? process.run()) != nil else { return false }
      process.waitUntilExit()
      return process.terminationStatus == 0
    }()

    @Test(
      "the same on a real file system, which then gets more room",
      .enabled(if: mayMount, "mounting in a namespace is not allowed here"))
    func smallFileSystem() async throws {
      // The journal has no tokens of lines that are nothing else.
      let site = try await JournalSite.simple(JournalSite.Settings(rate: 40_000), count: 20_000, nameByteCount: 1)
      try FileManager.default.createDirectory(
        atPath: site.place.path(JournalSite.journal), withIntermediateDirectories: false)
      // The file system exists as long as this shell.
      let script = """
        mount -t tmpfs -o size=300k none journal || exit 77
        "$@" >first.out 2>first.err
        echo $? >first.status
        "$1" send --resume --journal journal >second.out 2>second.err
        "$1" journal verify journal >verified.out
        mount -o remount,size=64m journal
        exec "$1" send --resume --journal journal --json
        """
      let preparation = "exec unshare --map-root-user --mount sh -c '\(script)' sh"
      let resumed = try await site.send(preparation: preparation)
      let first = Ending(
        status: Int32(try site.place.read("first.status").prefix { $0.isNumber }) ?? -1,
        output: try site.place.read("first.out"),
        errors: try site.place.read("first.err"))
      expectAdvice(
        first, "the journal has stopped: cannot write journal/segment-000000000001.lz4: No space left on device")
      let account = try #require(SentAccount(first)?.apps["news"], "\(first)")
      #expect(account.sum == account.submitted, "\(first)")
      #expect(account.submitted < 20_000, "\(first)")
      #expect(try site.place.read("second.err").contains("No space left on device"))
      #expect(try site.place.read("verified.out").contains("The journal is sound"))
      #expect(resumed.status == 0, "\(resumed)")
      #expect(try await site.truth(resumed).problems().isEmpty)
    }
  }
}
