internal import Foundation

/// The measurements of one workload.
struct Result: Sendable {
  var name: String
  /// In one iteration.
  var operations: Int
  var unit: String
  /// In one iteration, like the instructions.
  var allocations: Int
  /// False: it may not allocate at all, whatever the thresholds say.
  var mayAllocate: Bool
  var instructions: Int
  /// The median, in nanoseconds for one iteration; nil where time was not measured.
  var time: Double?

  var instructionsPerOperation: Double { Double(instructions) / Double(operations) }
}

struct Unreadable: Error, CustomStringConvertible {
  let description: String
}

enum Results {
  /// In the order in which the workloads ran.
  static func read(folder: String) throws -> [Result] {
    let instructions = try instructions(folder: folder)
    return try lines(of: "\(folder)/counts").map { line in
      let words = line.split(separator: " ")
      guard words.count >= 5, let operations = Int(words[1]), let allocations = Int(words[2]) else {
        throw Unreadable(description: String(line))
      }
      let name = String(words[0])
      guard let count = instructions[name] else { throw Unreadable(description: "callgrind has not counted \(name)") }
      return Result(
        name: name, operations: operations, unit: words[4...].joined(separator: " "), allocations: allocations,
        mayAllocate: words[3] == "may", instructions: count, time: try time(of: name, folder: folder))
    }
  }

  /// Reads callgrind's files. There is one for each workload, named in its line `desc: Trigger`,
  /// and one more for everything else.
  private static func instructions(folder: String) throws -> [String: Int] {
    var counts: [String: Int] = [:]
    for file in try FileManager.default.contentsOfDirectory(atPath: folder) where file.hasSuffix(".callgrind") {
      let total = try lines(of: "\(folder)/\(file)").last { $0.hasPrefix("totals:") }
      guard let count = total?.split(separator: " ").last.flatMap({ Int($0) }) else {
        throw Unreadable(description: "\(file) has no line \"totals:\"")
      }
      counts[String(file.dropLast(".callgrind".count))] = count
    }
    return counts
  }

  /// The 50th percentile in the export of ordo-one/benchmark.
  private static func time(of name: String, folder: String) throws -> Double? {
    let file = "\(folder)/time/Current_run.Timing.\(name).wallClock.histogram.percentiles.tsv"
    guard FileManager.default.fileExists(atPath: file) else { return nil }
    for line in try lines(of: file) {
      let words = line.split(whereSeparator: \.isWhitespace)
      if words.count >= 2, Double(words[0]) == 50 { return Double(words[1]) }
    }
    return nil
  }

  static func lines(of file: String) throws -> [Substring] {
    try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
  }
}
