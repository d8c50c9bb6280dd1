// swift-tools-version: 6.2
import PackageDescription

// Somebody else's package, with nothing but defaults: what a user of the library sees and builds.
// ops/test builds it and runs it against `carillon simulate`.
let package = Package(
  name: "Consumer",
  dependencies: [.package(name: "Carillon", path: "../..")],
  targets: [
    .executableTarget(name: "Consumer", dependencies: [.product(name: "Carillon", package: "Carillon")])
  ]
)
