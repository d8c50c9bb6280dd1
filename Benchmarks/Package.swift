// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that users of Carillon neither fetch nor build what only the benchmarks
// need. ops/bench runs it.
//
// Only public declarations of another package are visible here, and the engine is not public. So
// the measured modules are modules of this package too: Sources/PushWire and so on are links to
// ../Sources, with `package` access as there. Sources/PushEngine/Inside.swift makes the engine's
// internal parts available; it is compiled into that module.

/// The settings of ../Package.swift, so that the measured code is built in the same way.
/// `TidyTests` compares the two manifests.
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
let nioEmbedded = Target.Dependency.product(name: "NIOEmbedded", package: "swift-nio")

let package = Package(
  name: "CarillonBenchmarks",
  dependencies: [
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    // Its replacement of malloc would need further packages. CMeter has its own.
    .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
  ],
  targets: [
    .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CLZ4", pkgConfig: "liblz4", providers: [.apt(["liblz4-dev"])]),

    .target(name: "PushWire", swiftSettings: settings),
    .target(name: "PushJournal", dependencies: ["CLZ4"], swiftSettings: settings),
    .target(
      name: "PushTransport", dependencies: ["PushWire", "COpenSSL", nioCore, nioPosix],
      swiftSettings: settings),
    .target(name: "PushEngine", dependencies: ["PushWire", "PushTransport", "PushJournal"], swiftSettings: settings),

    // CMeter counts allocations and instructions. Workloads holds what is measured. Count measures
    // it once under callgrind, Timing measures its time, and Report compares both with the
    // thresholds.
    .target(name: "CMeter"),
    .target(
      name: "Workloads",
      dependencies: ["PushWire", "PushJournal", "PushTransport", "PushEngine", nioCore, nioEmbedded],
      swiftSettings: settings),
    .executableTarget(name: "Count", dependencies: ["CMeter", "Workloads"], swiftSettings: settings),
    .executableTarget(name: "Report", swiftSettings: settings),
    // In the package's folder, because the plugin finds benchmarks by the name of their folder.
    .executableTarget(
      name: "Timing", dependencies: ["CMeter", "Workloads", .product(name: "Benchmark", package: "benchmark")],
      path: "Timing", swiftSettings: settings,
      plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]),
  ]
)
