internal import Foundation
internal import Testing

/// Tests of the checker: a checker that finds nothing, or a run without tests, must not look like a
/// clean tree.
struct CanaryTests {
  /// A planted violation: its file, its text, and a part of the expected message.
  struct Planted: Sendable, CustomTestStringConvertible {
    let path: String
    let text: String
    let expected: String

    var testDescription: String { "\(path): \(expected)" }
  }

  static let planted: [Planted] = [
    Planted(
      path: "Sources/PushEngine/A.swift", text: "internal import PushGateway\n",
      expected: "PushEngine must not import PushGateway"),
    Planted(
      path: "Sources/PushGateway/A.swift", text: "package import PushEngine\n",
      expected: "PushGateway must not import PushEngine"),
    Planted(
      path: "Sources/PushWire/A.swift", text: "internal import Glibc\n", expected: "PushWire must not import Glibc"),
    Planted(
      path: "Tests/PushWireTests/A.swift", text: "let seed = UInt64.random(in: 0...9)\n", expected: "hidden seed"),
    Planted(path: "Sources/PushServer/A.swift", text: "try await Task.sleep(for: a)\n", expected: "hidden clock"),
    Planted(path: "Sources/PushServer/A.swift", text: "let a = Date()\n", expected: "hidden clock"),
    Planted(path: "Sources/PushService/A.swift", text: "f(MachineClock().now)\n", expected: "hidden clock"),
    Planted(path: "Sources/Carillon/A.swift", text: "let a = ContinuousClock.now\n", expected: "hidden clock"),
    Planted(
      path: "Sources/PushWire/A.swift", text: "internal import PushTransport\n",
      expected: "PushWire must not import PushTransport"),
    Planted(
      path: "Sources/PushServer/A.swift", text: "internal import COpenSSL\n",
      expected: "only PushTransport imports COpenSSL"),
    Planted(
      path: "Sources/PushEngine/A.swift", text: "internal import struct Foundation.Date\n",
      expected: "PushEngine must not import Foundation"),
    Planted(
      path: "Sources/Fresh/A.swift", text: "internal import PushWire\n",
      expected: "the module Fresh is not in Arrows.swift"),
    Planted(path: "Sources/PushServer/A.swift", text: "import PushWire\n", expected: "has no access level"),
    Planted(path: "Tests/PushWireTests/A.swift", text: "@testable import PushWire\n", expected: "has no access level"),
    Planted(path: "Sources/PushEngine/A.swift", text: "func f() { Task { await g() } }\n", expected: "loose task"),
    Planted(
      path: "Sources/PushEngine/A.swift", text: "func f() { Task(priority: .high) { await g() } }\n",
      expected: "loose task"),
    Planted(path: "Sources/PushEngine/A.swift", text: "func f() { Task.detached { } }\n", expected: "detached task"),
    Planted(path: "Sources/PushGateway/A.swift", text: "DispatchQueue.main.async {}\n", expected: "dispatch queue"),
    Planted(path: "Sources/PushServer/A.swift", text: "print(\"hello\")\n", expected: "print"),
    Planted(path: "Sources/CarillonCommand/A.swift", text: "let a = try! f()\n", expected: "forced try"),
    Planted(path: "Tests/CommandTests/A.swift", text: "let a = b as! Int\n", expected: "forced cast"),
    Planted(path: "Sources/PushWire/A.swift", text: "fatalError(\"no\")\n", expected: "fatalError"),
    Planted(path: "Sources/PushWire/A.swift", text: "// TODO: later\n", expected: "note to self"),
    Planted(path: "ops/test", text: "# FIXME\n", expected: "note to self"),
    Planted(path: "Sources/PushServer/A.swift", text: "let a = unsafe b[0]\n", expected: "unsafe code"),
    Planted(
      path: "Sources/PushServer/A.swift", text: "final class A: @unchecked Sendable {}\n",
      expected: "unchecked Sendable"),
    Planted(
      path: "Sources/PushTransport/Ring/A.swift", text: "final class A: @unchecked Sendable {}\n",
      expected: "without a Sync comment"),
    Planted(
      path: "Sources/PushWire/A.swift", text: String(repeating: "\n", count: Rules.lineLimit + 1),
      expected: "lines, at most"),
    Planted(
      path: "Sources/PushWire/A.swift", text: "  /// \(String(repeating: "a ", count: 50))\n",
      expected: "a comment of 106 columns"),
    Planted(
      path: "ops/test", text: "# \(String(repeating: "a ", count: 50))\n", expected: "a comment of 102 columns"),
    Planted(
      path: "Tests/PushWireTests/A.swift", text: "#expect(\n  a.b { $0 && $1 } == c[0]\n    && d, \"e\")\n",
      expected: "an expectation of several conditions"),
    Planted(path: "ops/server.pem", text: "anything\n", expected: "key material"),
    Planted(
      path: "Tests/Support/A.swift",
      text: "let pem = \"\"\"\n-----BEGIN PRIVATE KEY-----\n\(String(repeating: "A", count: 64))\n",
      expected: "a PEM block"),
    Planted(path: "README.md", text: "Look into \("/")home/someone/carillon.\n", expected: "path of one machine"),
  ]

  @Test("the checker finds two types with one name, unless only their files see them")
  func findsSharedNames() {
    let files = [
      SourceFile(path: "Sources/PushWire/A.swift", text: "package struct Twin {}\nprivate enum Own {}\n"),
      SourceFile(path: "Sources/Carillon/B.swift", text: "private enum Own {}\npublic final class Twin {}\n"),
    ]
    #expect(Rules.sharedTypeNames(files).map(\.line) == [2])
  }

  @Test("the checker finds a planted violation", arguments: planted)
  func findsPlanted(planted: Planted) throws {
    let findings = try Rules.allFindings(in: SourceFile(path: planted.path, text: planted.text))
    #expect(
      findings.contains { $0.message.contains(planted.expected) },
      "planted in \(planted.path): \(planted.text.prefix(80)); found \(findings)")
  }

  @Test("the checker leaves clean code, comments and strings alone")
  func leavesCleanCode() throws {
    let text = ##"""
      internal import PushWire
      package import PushTransport
      /* Task { } and /* nested */ try! here */
      // A dispatch queue would be DispatchQueue; print( is for the command.
      let a = "Task { \(names.map { "fatalError(\($0))" }) as! }", b = 1
      let c = #"a "quoted" try! \#(d) "# + """
        print("x") "" as! \(e ?? "unsafe")
        """
      func taskList() { reprint(1); footprint(2); log.print(3) }
      let unsafeValue = asCharacter("a")
      let relative = "ops/work/file"
      #expect(a.allSatisfy { $0.b && $0.c } == (d && e), "f && g"); if h && i { #require(j) }
      """##
    let findings = try Rules.allFindings(in: SourceFile(path: "Sources/PushEngine/A.swift", text: text))
    #expect(findings.isEmpty, "\(findings)")
  }

  @Test("code after a string or comment on the same line is checked too")
  func looksAfterStrings() throws {
    let texts = [
      #"let a = "x"; let b = try! c()"#, "/* a */ let b = try! c()", ##"let a = #"\"# ; let b = try! c()"##,
      "let a = \"\"\"\n  \"\n  \"\"\"; let b = try! c()",
    ]
    for text in texts {
      let findings = try Rules.allFindings(in: SourceFile(path: "Sources/PushEngine/A.swift", text: text))
      #expect(findings.contains { $0.message.contains("forced try") }, "\(text)")
    }
  }

  /// `ops/test` runs this test with CARILLON_CANARY set and expects it to fail. That proves that
  /// failures are noticed.
  @Test("the canary fails on request", .enabled(if: ProcessInfo.processInfo.environment["CARILLON_CANARY"] != nil))
  func failsOnDemand() {
    Issue.record("planted failure: this is the canary")
  }
}
