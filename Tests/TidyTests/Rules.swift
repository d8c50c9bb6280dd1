/// A pattern that is forbidden in some part of the tree, and what to write instead.
struct Rule: Sendable {
  let name: String
  /// Every line that matches contains one of these words; they make the search fast.
  let words: [String]
  /// A regular expression for one line.
  let pattern: String
  /// True: comments and string literals are checked too.
  var inComments = false
  /// Whether the rule applies to a file.
  let covers: @Sendable (SourceFile) -> Bool
  let instead: String

  func findings(in file: SourceFile) throws -> [Finding] {
    guard covers(file) else { return [] }
    // Simple boundaries, because by the Unicode rules "a.b" has none between its words.
    let expression = try Regex(pattern).wordBoundaryKind(.simple)
    let text = inComments ? file.text : file.code
    guard words.contains(where: text.mentions) else { return [] }
    var findings: [Finding] = []
    for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
    where try words.contains(where: line.mentions) && expression.firstMatch(in: line) != nil {
      findings.append(Finding(path: file.path, line: index + 1, message: "\(name): \(instead)"))
    }
    return findings
  }
}

enum Rules {
  /// Folders that handle raw memory, each a path prefix with the reason. Other code uses their safe
  /// interfaces.
  static let unsafeFolders: [(prefix: String, reason: String)] = [
    ("Sources/PushTransport/Ring/", "the ring lays out its own memory"),
    ("Sources/PushTransport/TLS/", "OpenSSL is a C library"),
    ("Sources/PushTransport/Loop/", "the seams carry bytes as raw buffers"),
    ("Sources/PushTransport/Binary/", "sockets read into raw buffers"),
    ("Sources/PushWire/Binary/", "the codec reads and writes raw memory"),
    ("Sources/PushWire/Values/", "tokens are scanned as raw bytes, and Bytes.swift has what Span lacks"),
    ("Sources/PushWire/JSON/", "JSON is scanned as raw bytes"),
    ("Sources/PushWire/HTTP2/", "identifiers are read and written as raw bytes, and names are compared with bytes"),
    ("Sources/PushWire/HPACK/", "header blocks are read in place"),
    ("Sources/PushTransport/HTTP2/", "frames are read and written in raw memory"),
    ("Sources/PushJournal/Segment/", "frames are laid out in raw memory for LZ4, and files are the kernel's"),
    ("Sources/PushJournal/Commit/", "records are copied into blocks; the lock and the thread are the C library's"),
    ("Sources/PushJournal/Recovery/", "records are handed out in place, where LZ4 has put them"),
    (
      "Sources/PushEngine/Campaign/", "audiences are scanned in place, and go from the chunk into the ring as raw bytes"
    ),
    ("Sources/PushEngine/Journal/", "records are written into and read from the memory of the journal"),
    ("Sources/PushEngine/Account/CampaignLedger.swift", "the report reads tokens from the ring's records"),
    ("Sources/PushEngine/Pool/", "lanes pack frames into the batch buffer and take raw bytes from the link"),
    ("Sources/PushStoreSQLite/Blob.swift", "the bytes of a column are SQLite's"),
    ("Sources/PushStorePostgreSQL/Connection/", "libpq is a C library"),
    ("Sources/PushGateway/HTTP2/", "nghttp2 is a C library"),
    ("Sources/PushGateway/Service/", "requests are checked in nghttp2's buffers"),
    ("Sources/PushGateway/Truth/", "the record hashes tokens and payloads in place"),
    ("Sources/PushGateway/Listener/", "the listener hands the link's raw bytes to sessions"),
    ("Sources/PushGateway/Faults/", "fault rules compare token bytes in place"),
    ("Sources/Carillon/Campaign/FileFingerprint.swift", "a file is read in blocks of raw memory"),
    ("Sources/Carillon/Channels/", "the link's raw bytes go to an HTTP/2 session"),
    ("Sources/Carillon/Feedback/", "the link's raw bytes are decoded in place"),
    ("Sources/PushSend/Lists/", "lists are opened, synced and replaced by the C library"),
    ("Sources/PushBench/Run/", "the simulator is a child process, and tokens lie in one block of memory"),
    ("Sources/PushServer/Supervision/", "the service manager's socket and clock are the C library's"),
    ("Sources/PushServer/Lifecycle/DiskRecovery.swift", "room on a disk is asked of the C library"),
    ("Sources/CarillonCommand/", "the command passes files and buffers to the codec, and sets signal handlers"),
    ("Tests/", "tests check memory layouts and buffers"),
  ]

  /// Folders with `@unchecked Sendable` types. Each of these has a comment that starts with
  /// "Sync:".
  static let uncheckedFolders = [
    "Sources/PushTransport/Ring/", "Sources/PushTransport/TLS/", "Sources/PushTransport/HTTP2/",
    "Sources/PushTransport/Loop/", "Sources/PushGateway/HTTP2/", "Sources/PushWire/Binary/",
    "Sources/PushJournal/Commit/", "Sources/PushJournal/Segment/", "Sources/PushEngine/Campaign/Audience",
    "Sources/PushStorePostgreSQL/Connection/", "Tests/",
  ]

  /// Files that read a clock, each with the reason. Others take the time as a parameter, or ask the
  /// clock that they were given.
  static let clockFiles: [(path: String, reason: String)] = [
    ("Sources/PushService/ServiceClock.swift", "it is the clock"),
    ("Sources/Carillon/Deployment/DeploymentCore.swift", "a deployment's time of day is the machine's by default"),
    ("Sources/Carillon/Deployment/RunningEngine.swift", "an engine's time of day is the machine's by default"),
    ("Sources/Carillon/Notification/PushPayload.swift", "the default of a public parameter"),
    ("Sources/PushServer/Supervision/ServiceLog.swift", "the time of a line of the log"),
  ]
  private static let clockModules: Set<String> = ["Carillon", "PushServer", "PushService"]

  private static let belowTheCommand: @Sendable (SourceFile) -> Bool = {
    $0.isSwift && $0.isSource && $0.module != "CarillonCommand"
  }
  private static let allSwift: @Sendable (SourceFile) -> Bool = { $0.isSwift }
  /// The rules' own files contain the forbidden words.
  private static let isNoRule: @Sendable (SourceFile) -> Bool = { !$0.path.hasPrefix("Tests/TidyTests/") }

  static let banned: [Rule] = [
    Rule(
      name: "loose task", words: ["Task"], pattern: #"\bTask\s*(?:\([^)]*\)\s*)?\{"#, covers: belowTheCommand,
      instead: "start long-lived work as a child in a task group's run(), or post to the loop"),
    Rule(
      name: "detached task", words: ["Task"], pattern: #"\bTask\s*\.\s*(?:detached|immediateDetached)\b"#,
      covers: belowTheCommand,
      instead: "use a child task of run(), or an actor on its event loop"),
    Rule(
      name: "dispatch queue", words: ["Dispatch"], pattern: #"\bDispatch(?:Queue|Group|Semaphore|Source)\b"#,
      covers: belowTheCommand,
      instead: "use the Loop seam, an actor, or Mutex"),
    Rule(
      name: "print", words: ["rint"], pattern: #"(?:^|[^.\w])(?:debugPrint|print)\s*\("#, covers: belowTheCommand,
      instead: "return the value to the command, which alone writes to the terminal"),
    Rule(
      name: "hidden seed", words: [".random("], pattern: #"seed\b.*\.random\(in:"#,
      covers: { $0.isSwift && $0.path.hasPrefix("Tests/") && !$0.path.hasPrefix("Tests/Support/") },
      instead: "use SeededGenerator.fresh() or freshSeed(), which print the seed before the test runs"),
    Rule(
      name: "hidden clock", words: ["now", "sleep", "Clock", "Date("],
      pattern: #"\bTask\.sleep\b|\bDate\(\)|\b(?:Instant|Date|DispatchTime|NIODeadline)\.now\b"#
        + #"|\b(?:Continuous|Suspending)Clock\b|\bNIOLoop\.wallClock|(?:^|[^= ]) *MachineClock\(\)"#,
      covers: { file in
        file.isSource && clockModules.contains(file.module ?? "") && !clockFiles.contains { $0.path == file.path }
      },
      instead: "take the time as a parameter, or ask the ServiceClock or the loop: the simulation runs the same code"),
    Rule(
      name: "forced try", words: ["try!"], pattern: #"\btry!"#, covers: allSwift,
      instead: "throw a typed error (in tests: `try` or #require)"),
    Rule(
      name: "forced cast", words: ["as!"], pattern: #"\bas!"#, covers: allSwift,
      instead: "use `as?` and handle the other case (in tests: #require)"),
    Rule(
      name: "fatalError", words: ["fatalError"], pattern: #"\bfatalError\s*\("#, covers: allSwift,
      instead:
        "return an error for wrong input; for a programming error call preconditionFailure with the event and the state"
    ),
    Rule(
      name: "note to self", words: ["TODO", "FIXME", "XXX"], pattern: #"\b(?:TODO|FIXME|XXX)\b"#, inComments: true,
      covers: { isNoRule($0) && ($0.isSwift || $0.path.hasPrefix("ops/") || $0.path.hasPrefix(".ci/")) },
      instead: "do it, or open an issue and leave the code without it"),
    Rule(
      name: "unsafe code", words: ["unsafe"], pattern: #"\bunsafe\b(?!.*asUnowned(?:Serial|Task)Executor)"#,
      covers: { file in file.isSwift && file.module != nil && !unsafeFolders.contains { file.path.hasPrefix($0.prefix) }
      },
      instead: "use Span or the safe calls of Ring, TLS or the codec, or add the folder to Rules.unsafeFolders"),
    Rule(
      name: "unchecked Sendable", words: ["@unchecked"], pattern: #"@unchecked\s+Sendable\b"#,
      covers: { file in file.isSwift && file.isSource && !uncheckedFolders.contains { file.path.hasPrefix($0) } },
      instead: "use Mutex, Atomic or an actor"),
  ]

  /// Finds `@unchecked Sendable` types without a nearby comment that starts with "Sync:" and says
  /// what synchronises accesses.
  static func unexplainedSendable(in file: SourceFile) -> [Finding] {
    guard file.isSwift, file.isSource, file.code.mentions("@unchecked") else { return [] }
    let code = file.code.split(separator: "\n", omittingEmptySubsequences: false)
    let text = file.text.split(separator: "\n", omittingEmptySubsequences: false)
    var findings: [Finding] = []
    for (index, line) in code.enumerated() where line.firstMatch(of: #/@unchecked\s+Sendable\b/#) != nil {
      let nearby = text[max(0, index - 8)...min(text.count - 1, index + 3)]
      guard !nearby.contains(where: { $0.firstMatch(of: #/\/\/\/?\s*(?:- )?Sync:/#) != nil }) else { continue }
      let message = "@unchecked Sendable without a Sync comment: add \"// Sync: …\" with what synchronises accesses"
      findings.append(Finding(path: file.path, line: index + 1, message: message))
    }
    return findings
  }

  /// Finds expectations that join conditions with `&&`: a failure would not say which one failed.
  static func joinedConditions(in file: SourceFile) -> [Finding] {
    guard file.isSwift, file.code.mentions("&&") else { return [] }
    return file.code.matches(of: #/#(?:expect|require)\(/#).filter { call in
      var (depth, previous) = (1, UInt8(ascii: " "))
      for byte in file.code[call.range.upperBound...].utf8 {
        switch byte {
        case UInt8(ascii: "("), UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
        case UInt8(ascii: ")"), UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
        case UInt8(ascii: "&") where previous == byte && depth == 1: return true
        default: break
        }
        guard depth > 0 else { return false }
        previous = byte
      }
      return false
    }.map { call in
      Finding(
        path: file.path, line: file.code[..<call.range.lowerBound].utf8.count { $0 == UInt8(ascii: "\n") } + 1,
        message: "an expectation of several conditions: split it at &&")
    }
  }

  static let lineLimit = 500

  static func tooLong(_ file: SourceFile) -> [Finding] {
    guard file.isSwift else { return [] }
    let lines = file.text.split(separator: "\n", omittingEmptySubsequences: false).count
    guard lines > lineLimit + 1 else { return [] }
    return [
      Finding(
        path: file.path, line: lineLimit + 1, message: "\(lines) lines, at most \(lineLimit): split it by subject")
    ]
  }

  /// A type that only its own file sees may have any name.
  static func sharedTypeNames(_ files: [SourceFile]) -> [Finding] {
    let declaration =
      #/
      ^(?:@\w+(?:\([^)]*\))?\s+)*
      (?:(?:public|package|internal)\s)?(?:(?:final|indirect)\s)?
      (?:struct|class|enum|actor|protocol)\s(\w+)
      /#
    var places: [String: String] = [:]
    var findings: [Finding] = []
    for file in files where file.isSource && file.isSwift {
      for (index, line) in file.code.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
        guard let name = line.prefixMatch(of: declaration).map({ String($0.1) }) else { continue }
        if let other = places[name] {
          findings.append(
            Finding(path: file.path, line: index + 1, message: "\(other) has a type \(name) too: rename one of them"))
        }
        places[name] = file.path
      }
    }
    return findings
  }

  static let commentWidth = 100

  /// Code may be as wide as swift-format allows; comments are read as text.
  static func wideComments(in file: SourceFile) -> [Finding] {
    let mark = file.isSwift ? "//" : "#"
    guard file.isSwift || file.path.hasPrefix("ops/") && !file.path.hasSuffix(".json") else { return [] }
    var findings: [Finding] = []
    for (index, line) in file.text.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
    where line.utf8.count > commentWidth && line.count > commentWidth
      && line.drop(while: \.isWhitespace).hasPrefix(mark)
    {
      guard line.firstMatch(of: #/^\s*#[a-z]/#) == nil else { continue }  // #expect and the like
      let message = "a comment of \(line.count) columns, at most \(commentWidth): break the line"
      findings.append(Finding(path: file.path, line: index + 1, message: message))
    }
    return findings
  }

  /// Certificates and keys are made when they are needed and never committed, neither as files nor
  /// inside one.
  static func keyMaterial(in file: SourceFile) -> [Finding] {
    let ending = file.path.split(separator: ".").last.map(String.init) ?? ""
    if ["pem", "p12", "pfx", "p8", "key", "crt", "cer", "der"].contains(ending) {
      return [
        Finding(
          path: file.path, line: 1,
          message: "key material must not be in the repository: make it at test time with CertificateMaker")
      ]
    }
    guard file.text.mentions("-----BEGIN") else { return [] }
    let lines = file.text.split(separator: "\n", omittingEmptySubsequences: false)
    var findings: [Finding] = []
    for index in lines.indices.dropLast() where lines[index].firstMatch(of: #/-----BEGIN [A-Z0-9 ]+-----\s*$/#) != nil {
      // The next line of a real PEM block is base64. A test of the reader may contain the first
      // line alone.
      guard lines[index + 1].firstMatch(of: #/^\s*[A-Za-z0-9+\/=]{40,}\s*$/#) != nil else { continue }
      findings.append(
        Finding(
          path: file.path, line: index + 1,
          message: "a PEM block in the repository: make certificates and keys at test time with CertificateMaker"))
    }
    return findings
  }

  static let machinePath = Rule(
    name: "path of one machine", words: ["/work", "/root", "/home", "/Users"],
    pattern: #"(?:^|[^\w.~$}\-/])/(?:work|root|home|Users)/\w"#, inComments: true,
    covers: isNoRule,
    instead: "use a path relative to the repository, or a temporary directory made at run time")

  static func allFindings(in file: SourceFile) throws -> [Finding] {
    var findings = unexplainedSendable(in: file) + tooLong(file) + keyMaterial(in: file) + Arrows.findings(in: file)
    findings += wideComments(in: file) + joinedConditions(in: file)
    for rule in banned + [machinePath] { findings += try rule.findings(in: file) }
    return findings
  }
}
