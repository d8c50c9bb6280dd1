// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that users of Carillon neither fetch nor build what only benchmarks
// need. Run it by ops/bench.
//
// What another package offers is visible from here only where it is public, and the engine is not.
// So the modules to be measured are modules of this package too:
// Sources/PushWire and so on are links to ../Sources, and `package` declarations can be used as
// they can there. What is internal to the engine is reached by Sources/PushEngine/Inside.swift,
// compiled into that module.

/// As in ../Package.swift: what is measured is built in the same way. `TidyTests` compares the two
/// manifests.
let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .strictMemorySafety(),
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
]

let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let nioEmbedded = Target.Dependency.product(name: "NIOEmbedded", package: "swift-nio")

let package = Package(
  name: "CarillonBenchmarks",
  dependencies: [
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    // Its own functions in front of malloc would come as further packages; ours are in CMeter.
    .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
  ],
  targets: [
    .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CNGHTTP2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
    .systemLibrary(name: "CLZ4", pkgConfig: "liblz4", providers: [.apt(["liblz4-dev"])]),

    .target(name: "PushWire", swiftSettings: settings),
    .target(name: "PushJournal", dependencies: ["CLZ4"], swiftSettings: settings),
    .target(
      name: "PushTransport", dependencies: ["PushWire", "COpenSSL", "CNGHTTP2", nioCore, nioPosix],
      swiftSettings: settings),
    .target(name: "PushEngine", dependencies: ["PushWire", "PushTransport", "PushJournal"], swiftSettings: settings),

    // CMeter counts allocations and instructions; Workloads is what is measured; Count measures it
    // once under callgrind, Timing its time, and Report compares both with the thresholds.
    .target(name: "CMeter"),
    .target(
      name: "Workloads",
      dependencies: ["PushWire", "PushJournal", "PushTransport", "PushEngine", nioCore, nioEmbedded],
      swiftSettings: settings),
    .executableTarget(name: "Count", dependencies: ["CMeter", "Workloads"], swiftSettings: settings),
    .executableTarget(name: "Report", swiftSettings: settings),
    // In the package's folder: the plugin knows its benchmarks by the name of the folder that holds
    // theirs.
    .executableTarget(
      name: "Timing", dependencies: ["CMeter", "Workloads", .product(name: "Benchmark", package: "benchmark")],
      path: "Timing", swiftSettings: settings,
      plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]),
  ]
)
