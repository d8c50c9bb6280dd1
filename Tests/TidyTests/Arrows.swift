/// The imports that each module may have, as in ARCHITECTURE.md, "Code map". All others are
/// forbidden.
enum Arrows {
  /// Modules of the toolchain, which any module may import.
  static let anywhere: Set<String> = ["Swift", "Synchronization", "Glibc", "Testing"]

  static let allowed: [String: Set<String>] = [
    "PushWire": [],
    "PushJournal": ["CLZ4"],
    "PushTransport": ["PushWire", "NIOCore", "NIOPosix", "COpenSSL"],
    "PushStore": [],
    "PushStoreSQLite": ["PushStore", "GRDB", "GRDBSQLite", "Foundation"],
    "PushStorePostgreSQL": ["PushStore", "CPostgreSQL"],
    "PushEngine": ["PushWire", "PushTransport", "PushJournal"],
    "PushGateway": ["PushWire", "PushTransport", "CNGHTTP2", "NIOCore", "NIOPosix"],
    "Carillon": [
      "PushWire", "PushTransport", "PushJournal", "PushEngine", "NIOPosix", "ServiceLifecycle", "Logging", "Foundation",
    ],
    "CarillonTesting": ["Carillon", "PushGateway", "PushTransport", "PushWire", "Foundation"],
    "PushSend": ["Carillon", "PushEngine", "PushTransport", "PushWire", "Foundation"],
    "PushService": [
      "Carillon", "PushSend", "PushEngine", "PushStore", "PushTransport", "PushWire", "HTTPTypes", "NIOCore",
      "NIOPosix", "ServiceLifecycle", "Logging", "Foundation",
    ],
    "PushServer": [
      "Carillon", "PushSend", "PushService", "PushEngine", "PushStore", "PushStoreSQLite", "PushStorePostgreSQL",
      "PushTransport", "PushWire", "CHeap",
      "Hummingbird", "HummingbirdCore", "HTTPTypes", "NIOCore", "NIOPosix", "NIOHTTP1", "NIOHTTPTypes",
      "NIOHTTPTypesHTTP1",
      "ServiceLifecycle", "UnixSignals", "Logging", "Yams", "Foundation",
    ],
    "ReaderFuzzer": ["PushTransport", "PushWire"],
    "PushBench": ["Carillon", "PushEngine", "PushTransport", "PushWire", "Histogram", "Foundation"],
    "CarillonCommand": [
      "Carillon", "PushSend", "PushServer", "PushService", "PushStore", "PushStoreSQLite", "PushBench", "PushEngine",
      "PushGateway", "PushTransport", "PushWire", "ArgumentParser", "Logging", "Foundation", "Dispatch", "HTTPTypes",
      "NIOCore",
      "NIOPosix", "NIOHTTP1", "NIOHTTPTypes", "NIOHTTPTypesHTTP1",
    ],
  ]

  /// PushWire is pure: it may not import even the C library.
  static let strict: Set<String> = ["PushWire"]

  /// C libraries with the only module that may import them.
  static let onlyImporter: [String: String] = [
    "COpenSSL": "PushTransport", "CNGHTTP2": "PushGateway", "CHeap": "PushServer", "CLZ4": "PushJournal",
    "CPostgreSQL": "PushStorePostgreSQL",
  ]

  struct Import {
    let module: String
    let line: Int
    let hasLevel: Bool
  }

  static func imports(of file: SourceFile) -> [Import] {
    var found: [Import] = []
    let declaration =
      #/
      ^\s*(?:@\w+(?:\([^)]*\))?\s+)*
      ((?:public|package|internal|fileprivate|private)\s+)?
      import\s+(?:(?:struct|class|enum|protocol|func|var|let|typealias)\s+)?(\w+)
      /#
    for (index, line) in file.code.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      guard line.mentions("import"), let match = line.firstMatch(of: declaration) else { continue }
      found.append(Import(module: String(match.2), line: index + 1, hasLevel: match.1 != nil))
    }
    return found
  }

  static func findings(in file: SourceFile) -> [Finding] {
    guard file.isSwift, let module = file.module else { return [] }
    var findings: [Finding] = []
    func add(_ entry: Import, _ message: String) {
      findings.append(Finding(path: file.path, line: entry.line, message: message))
    }
    for entry in imports(of: file) {
      // The consumer is a stranger's package, with nothing but defaults.
      if !entry.hasLevel, !file.path.hasPrefix("Tests/Consumer/") {
        add(
          entry,
          "import \(entry.module) has no access level: write `internal import`, or `package import` if the API needs it"
        )
      }
      if let owner = onlyImporter[entry.module], owner != module, !file.path.hasPrefix("Tests/") {
        add(entry, "only \(owner) imports \(entry.module): add what you need there, as Swift")
        continue
      }
      guard file.isSource else { continue }
      guard let may = allowed[module] else {
        add(
          entry, "the module \(module) is not in Arrows.swift: add it with the arrows of ARCHITECTURE.md, \"Code map\"")
        continue
      }
      if may.contains(entry.module) { continue }
      if anywhere.contains(entry.module), !strict.contains(module) { continue }
      add(entry, "\(module) must not import \(entry.module): \(advice(module, entry.module))")
    }
    return findings
  }

  private static func advice(_ module: String, _ imported: String) -> String {
    switch (module, imported) {
    case ("PushEngine", "PushGateway"), ("PushGateway", "PushEngine"):
      "the simulator must not share logic with the engine that it tests; compare the two in a test"
    case ("PushWire", _): "PushWire is pure Swift; take bytes, time and randomness as parameters"
    case (_, "Foundation"): "use Swift's own types, or Glibc; Foundation belongs in Carillon and the modules above it"
    default: "it may import \(allowed[module, default: []].sorted().joined(separator: ", "))"
    }
  }
}
