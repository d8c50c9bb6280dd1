// swift-tools-version: 6.2
import PackageDescription

// Somebody else's package: what a user of the library sees and builds. Without the traits of the
// service and the command, their packages are not fetched.
// ops/test builds it and runs it against `carillon simulate`.
let package = Package(
  name: "Consumer",
  dependencies: [.package(name: "Carillon", path: "../..", traits: [])],
  targets: [
    .executableTarget(name: "Consumer", dependencies: [.product(name: "Carillon", package: "Carillon")])
  ]
)
