// swift-tools-version: 6.2
import PackageDescription

/// The settings of every target: Swift 6 language mode, strict memory safety, warnings as errors,
/// and an access level for every import.
let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .strictMemorySafety(),
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableExperimentalFeature("Lifetimes"),
]

let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let service = TargetDependencyCondition.when(traits: ["Service"])
let postgreSQL = TargetDependencyCondition.when(traits: ["PostgreSQL"])
let command = TargetDependencyCondition.when(traits: ["Command"])

let package = Package(
  name: "Carillon",
  products: [
    .library(name: "Carillon", targets: ["Carillon"]),
    .library(name: "CarillonTesting", targets: ["CarillonTesting"]),
    .executable(name: "carillon", targets: ["CarillonCommand"]),
  ],
  traits: [
    .default(enabledTraits: ["Command", "PostgreSQL"]),
    .trait(name: "Service", description: "What carillon serve needs: its API, its store and its metrics."),
    .trait(name: "Command", description: "The command carillon.", enabledTraits: ["Service"]),
    .trait(name: "PostgreSQL", description: "A store in a PostgreSQL database, through libpq."),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.6.0"),
    .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
    .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-nio-extras.git", from: "1.35.2"),
    .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
  ],
  targets: [
    .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CNGHTTP2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
    .systemLibrary(name: "CHeap"),
    .systemLibrary(name: "CLZ4", pkgConfig: "liblz4", providers: [.apt(["liblz4-dev"])]),
    .systemLibrary(name: "CPostgreSQL", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),

    .target(name: "PushWire", swiftSettings: settings),
    .target(name: "PushJournal", dependencies: ["CLZ4"], swiftSettings: settings),
    .target(
      name: "PushTransport", dependencies: ["PushWire", "COpenSSL", nioCore, nioPosix],
      swiftSettings: settings),
    .target(name: "PushEngine", dependencies: ["PushWire", "PushTransport", "PushJournal"], swiftSettings: settings),
    .target(
      name: "PushGateway", dependencies: ["PushWire", "PushTransport", "CNGHTTP2", nioCore, nioPosix],
      swiftSettings: settings),
    .target(
      name: "Carillon",
      dependencies: [
        "PushWire", "PushTransport", "PushJournal", "PushEngine", nioPosix,
        .product(name: "Logging", package: "swift-log"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ],
      swiftSettings: settings),
    .target(
      name: "CarillonTesting", dependencies: ["Carillon", "PushGateway", "PushTransport", "PushWire"],
      swiftSettings: settings),
    .target(
      name: "PushSend", dependencies: ["Carillon", "PushWire", "PushTransport", "PushEngine"], swiftSettings: settings),
    .target(name: "PushStore", swiftSettings: settings),
    .target(
      name: "PushStoreSQLite",
      dependencies: [
        "PushStore", .product(name: "GRDB", package: "GRDB.swift", condition: service),
        .product(name: "GRDBSQLite", package: "GRDB.swift", condition: service),
      ],
      swiftSettings: settings),
    .target(
      name: "PushStorePostgreSQL", dependencies: ["PushStore", "CPostgreSQL"], swiftSettings: settings),
    .target(
      name: "PushService",
      dependencies: [
        "Carillon", "PushSend", "PushWire", "PushTransport", "PushEngine", "PushStore", nioCore, nioPosix,
        .product(name: "HTTPTypes", package: "swift-http-types", condition: service),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: settings),
    .target(
      name: "PushServer",
      dependencies: [
        "Carillon", "PushSend", "PushService", "PushWire", "PushTransport", "PushEngine", "PushStore",
        "PushStoreSQLite", .target(name: "PushStorePostgreSQL", condition: postgreSQL), "CHeap",
        .product(name: "Yams", package: "Yams", condition: service),
        .product(name: "Hummingbird", package: "hummingbird", condition: service),
        .product(name: "HummingbirdCore", package: "hummingbird", condition: service),
        .product(name: "HTTPTypes", package: "swift-http-types", condition: service),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "UnixSignals", package: "swift-service-lifecycle"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOHTTPTypes", package: "swift-nio-extras", condition: service),
        .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras", condition: service),
        nioCore, nioPosix,
      ],
      resources: [.embedInCode("OpenAPI/openapi.yaml")], swiftSettings: settings),
    .target(
      name: "PushBench",
      dependencies: [
        "Carillon", "PushWire", "PushTransport", "PushEngine",
        .product(name: "Histogram", package: "hdrhistogram-swift", condition: command),
      ],
      swiftSettings: settings),
    .executableTarget(
      name: "CarillonCommand",
      dependencies: [
        "Carillon", "PushSend", "PushWire", "PushTransport", "PushEngine", "PushGateway", "PushServer", "PushService",
        "PushStore", "PushStoreSQLite", "PushBench", nioCore, nioPosix,
        .product(name: "Logging", package: "swift-log"),
        .product(name: "ArgumentParser", package: "swift-argument-parser", condition: command),
        .product(name: "HTTPTypes", package: "swift-http-types", condition: service),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOHTTPTypes", package: "swift-nio-extras", condition: service),
        .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras", condition: service),
      ],
      swiftSettings: settings, plugins: ["BuildFacts"]
    ),
    .plugin(name: "BuildFacts", capability: .buildTool(), path: "ops/build-facts"),

    .target(
      name: "Support",
      dependencies: ["PushWire", "PushJournal", "PushTransport", "PushEngine", "PushGateway", "PushStore"],
      path: "Tests/Support", swiftSettings: settings),
    .testTarget(name: "PushWireTests", dependencies: ["PushWire", "Support"], swiftSettings: settings),
    .testTarget(name: "PushJournalTests", dependencies: ["CLZ4", "PushJournal", "Support"], swiftSettings: settings),
    .testTarget(
      name: "PushTransportTests",
      dependencies: [
        "CNGHTTP2", "PushGateway", "PushTransport", "PushWire", "Support", nioCore, nioPosix,
        .product(name: "NIOEmbedded", package: "swift-nio"),
      ],
      swiftSettings: settings),
    .testTarget(
      name: "PushEngineTests", dependencies: ["PushEngine", "PushJournal", "PushTransport", "PushWire", "Support"],
      swiftSettings: settings),
    .testTarget(
      name: "PushGatewayTests",
      dependencies: ["PushGateway", "PushTransport", "PushWire", "Support", nioCore, nioPosix],
      swiftSettings: settings),
    .testTarget(
      name: "CarillonTests",
      dependencies: [
        "Carillon", "CarillonTesting", "PushEngine", "PushTransport", "PushWire", "Support", nioCore, nioPosix,
        .product(name: "Logging", package: "swift-log"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ],
      swiftSettings: settings),
    .testTarget(
      name: "PushSendTests",
      dependencies: [
        "Carillon", "PushEngine", "PushSend", "PushTransport", "PushWire", "Support",
      ],
      swiftSettings: settings),
    .testTarget(
      name: "PushStoreTests",
      dependencies: [
        "PushStore", "PushStorePostgreSQL", "PushStoreSQLite", "Support",
        .product(name: "GRDB", package: "GRDB.swift", condition: service),
        .product(name: "GRDBSQLite", package: "GRDB.swift", condition: service),
      ],
      swiftSettings: settings),
    .testTarget(
      name: "PushServiceTests",
      dependencies: [
        "Carillon", "PushEngine", "PushSend", "PushService", "PushStore", "PushStoreSQLite", "PushTransport",
        "PushWire", "Support",
      ],
      swiftSettings: settings),
    .testTarget(
      name: "PushServerTests",
      dependencies: [
        "Carillon", "PushSend", "PushServer", "PushService", "PushEngine", "PushGateway", "PushStore",
        "PushStoreSQLite",
        "PushTransport", "PushWire", "Support",
        nioCore, nioPosix,
        .product(name: "Hummingbird", package: "hummingbird", condition: service),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOEmbedded", package: "swift-nio"),
      ],
      swiftSettings: settings),
    .testTarget(
      name: "PushBenchTests",
      dependencies: ["Carillon", "PushBench", "PushEngine", "PushTransport", "PushWire", "Support"],
      swiftSettings: settings),
    .testTarget(
      name: "CommandTests",
      dependencies: [
        "Carillon", "CarillonCommand", "PushEngine", "PushGateway", "PushSend", "PushServer", "PushService",
        "PushStore", "PushTransport", "PushWire", "Support", nioCore, nioPosix,
        .product(name: "Hummingbird", package: "hummingbird", condition: service),
        .product(name: "HTTPTypes", package: "swift-http-types", condition: service),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOEmbedded", package: "swift-nio"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ],
      exclude: ["DashboardInBrowser.py", "WebhookReceiver.py", "Fixtures"], swiftSettings: settings),
    .testTarget(
      name: "SimulationTests",
      dependencies: [
        "Carillon", "PushEngine", "PushGateway", "PushJournal", "PushSend", "PushService", "PushStore",
        "PushTransport", "PushWire", "Support", nioCore, .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: settings),
    .testTarget(
      name: "IntegrationTests",
      dependencies: [
        "Carillon", "PushEngine", "PushGateway", "PushServer", "PushTransport", "PushWire", "Support", nioCore,
        nioPosix,
      ],
      exclude: ["ForeignGateway.py", "ForeignProvider.py", "ForeignProvider.go"], swiftSettings: settings),
    .testTarget(name: "TidyTests", dependencies: ["Support"], swiftSettings: settings),
  ]
)

// Only the scripts in ops/ set these variables; packages that depend on this one do not.
//
// ops/test builds in three parts: the tests of the engine and of what it stands on optimised, where
// the simulation is 15 times as fast; everything else as usual; and once more, with
// ThreadSanitizer, only what the tests of shared memory need.
@MainActor func keepOnly(_ names: Set<String>) {
  package.products.removeAll()
  package.targets.removeAll { !names.contains($0.name) }
}

let engineTests: Set = [
  "PushWireTests", "PushJournalTests", "PushTransportTests", "PushEngineTests", "PushGatewayTests", "SimulationTests",
]
let engineParts: Set = ["COpenSSL", "CLZ4", "PushWire", "PushJournal", "PushTransport", "Support"]
switch Context.environment["CARILLON_ONLY"] {
case "shared-memory":
  // Without what needs NIO and OpenSSL, and without the engine, the simulator and the store.
  keepOnly(["CLZ4", "PushWire", "PushJournal", "PushTransport", "Support", "PushJournalTests", "PushTransportTests"])
  for target in package.targets {
    switch target.name {
    case "PushTransport":
      target.sources = ["Ring"]
      target.dependencies = ["PushWire"]
    case "Support":
      target.exclude += ["AccountCheck.swift", "Bridge", "HTTP2RequestFields.swift", "SimulatedLoop.swift", "Store"]
      target.dependencies = ["PushWire", "PushJournal", "PushTransport"]
    case "PushTransportTests":
      target.sources = ["Ring"]
      target.dependencies = ["PushTransport", "PushWire", "Support"]
    default: break
    }
  }
case "store":
  // To measure PushStore (Tests/PushStoreTests/Devices/AudienceMeasurement.swift).
  keepOnly(
    engineParts.union([
      "PushEngine", "PushGateway", "CNGHTTP2", "PushStore", "PushStorePostgreSQL", "PushStoreSQLite", "PushStoreTests",
      "CPostgreSQL",
    ]))
case "engine":
  keepOnly(
    engineParts.union(["PushEngine", "PushGateway", "CNGHTTP2", "Carillon", "PushSend", "PushStore", "PushService"])
      .union(engineTests))
  // To optimise them takes longer than they do. The simulation computes for minutes.
  for target in package.targets where engineTests.contains(target.name) && target.name != "SimulationTests" {
    target.swiftSettings?.append(.unsafeFlags(["-Onone"]))
  }
case "fuzz":
  // ops/fuzz. What it looks for mistakes in is instrumented as well.
  keepOnly(["COpenSSL", "PushWire", "PushTransport"])
  package.targets.append(
    .executableTarget(
      name: "ReaderFuzzer", dependencies: ["PushTransport", "PushWire"], path: "Tests/Fuzzers", exclude: ["Corpus"],
      swiftSettings: settings))
case "service": package.targets.removeAll { engineTests.contains($0.name) }
default: break
}
