internal import Foundation
internal import PushWire

/// A small random generator. One seed determines its whole sequence, so a failing test
/// can be repeated.
///
/// A seed that is an argument of its test is printed as the test starts. Other tests use
/// ``fresh(_:)``.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
  package let seed: UInt64
  private var generator: SplitMix64

  package init(seed: UInt64) { (self.seed, generator) = (seed, SplitMix64(seed: seed)) }

  /// One with a random seed, which is printed at once: a trap loses every later message.
  package static func fresh(_ function: String = #function) -> SeededGenerator {
    SeededGenerator(seed: freshSeed(function))
  }

  /// The seed alone. The environment's `CARILLON_SEED` takes its place.
  package static func freshSeed(_ function: String = #function) -> UInt64 {
    let given = ProcessInfo.processInfo.environment["CARILLON_SEED"].flatMap { UInt64($0) }
    let seed = given ?? UInt64.random(in: 0 ... .max)
    FileHandle.standardError.write(Data("CARILLON_SEED=\(seed) in \(function)\n".utf8))
    return seed
  }

  package mutating func next() -> UInt64 { generator.next() }
}

extension SeededGenerator {
  /// `count` random bytes.
  package mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
  }

  /// True in `percent` of a hundred cases.
  package mutating func chance(_ percent: Int) -> Bool {
    Int.random(in: 0..<100, using: &self) < percent
  }
}
