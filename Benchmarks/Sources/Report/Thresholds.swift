internal import Foundation

/// What a workload may allocate and execute: `Benchmarks/thresholds`.
struct Thresholds: Sendable {
  struct Limit: Sendable {
    /// In one iteration.
    var allocations: Int
    /// For one operation.
    var instructions: Double
  }

  /// By how many percent the instructions may exceed the threshold. Another patch version of the
  /// compiler or of a library stays below that.
  static let tolerance = 3.0

  var limits: [String: Limit] = [:]
  /// The tools that the thresholds were measured with.
  var environment: String?

  private static let prefix = "# Measured with "

  /// Reads the thresholds; there are none without a file.
  static func read(file: String) throws -> Thresholds {
    var thresholds = Thresholds()
    guard FileManager.default.fileExists(atPath: file) else { return thresholds }
    for line in try Results.lines(of: file) {
      if line.hasPrefix(prefix) { thresholds.environment = String(line.dropFirst(prefix.count)) }
      guard !line.hasPrefix("#") else { continue }
      let words = line.split(separator: " ")
      guard words.count == 3, let allocations = Int(words[1]), let instructions = Double(words[2]) else {
        throw Unreadable(description: "\(file): \(line)")
      }
      thresholds.limits[String(words[0])] = Limit(allocations: allocations, instructions: instructions)
    }
    return thresholds
  }

  mutating func update(_ results: [Result], environment: String, keepsOthers: Bool) {
    if !keepsOthers { limits = [:] }
    for result in results {
      limits[result.name] = Limit(
        allocations: result.allocations, instructions: result.instructionsPerOperation)
    }
    self.environment = environment
  }

  func write(file: String) throws {
    var lines = [
      "# What one iteration of a benchmark may allocate, and the instructions that one operation may take",
      "# (\(Int(Self.tolerance)) % more are allowed). Written by ops/bench --update.",
      Self.prefix + (environment ?? ""),
    ]
    for (name, limit) in limits.sorted(by: { $0.key < $1.key }) {
      let allocations = Table.right("\(limit.allocations)", 8)
      lines.append(Table.left(name, 20) + " " + allocations + " " + Table.right(Table.fixed(limit.instructions, 2), 12))
    }
    try (lines.joined(separator: "\n") + "\n").write(toFile: file, atomically: true, encoding: .utf8)
  }
}

/// One workload and its threshold.
struct Comparison: Sendable {
  let result: Result
  let threshold: Thresholds.Limit?

  init(_ result: Result, threshold: Thresholds.Limit?) {
    self.result = result
    self.threshold = threshold
  }

  var mostInstructions: Double? { threshold.map { $0.instructions * (1 + Thresholds.tolerance / 100) } }
  var allocatesWhereItMustNot: Bool { !result.mayAllocate && result.allocations > 0 }
  private var allocatesMore: Bool { threshold.map { result.allocations > $0.allocations } ?? false }
  private var executesMore: Bool { mostInstructions.map { result.instructionsPerOperation > $0 } ?? false }

  var isBetter: Bool {
    guard let threshold else { return false }
    let least = threshold.instructions * (1 - Thresholds.tolerance / 100)
    return result.allocations < threshold.allocations || result.instructionsPerOperation < least
  }

  var verdict: String {
    if allocatesWhereItMustNot { return "ALLOCATES" }
    if threshold == nil { return "NEW" }
    return allocatesMore || executesMore ? "ABOVE" : ""
  }

  var complaintAboutAllocating: String {
    "\(result.name) must not allocate, but allocated \(result.allocations) times."
  }

  var complaints: [String] {
    var lines: [String] = []
    if allocatesWhereItMustNot { lines.append(complaintAboutAllocating) }
    guard let threshold else { return lines + ["\(result.name) has no threshold: ops/bench --update \(result.name)"] }
    if allocatesMore, !allocatesWhereItMustNot {
      lines.append(
        "\(result.name): \(result.allocations) allocations in an iteration, at most \(threshold.allocations) allowed.")
    }
    if executesMore {
      let change = (result.instructionsPerOperation / threshold.instructions - 1) * 100
      let count = Table.digits(result.instructionsPerOperation)
      lines.append("\(result.name): \(count) instructions, \(Table.fixed(change, 1)) % above its threshold.")
    }
    return lines
  }
}
