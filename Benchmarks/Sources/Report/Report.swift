internal import Foundation

/// Prints the counts and times beside the thresholds, or writes new thresholds. It is the last step
/// of `ops/bench`.
///
///     Report FOLDER THRESHOLDS ENVIRONMENT [--update] [PART OF A NAME]
///
/// `FOLDER` holds the output of `Count` (`counts`), callgrind's files and, where time was measured,
/// the percentiles of ordo-one/benchmark. Exit status: 0 within the thresholds, 1 above one, 2
/// wrong arguments, 3 a file cannot be read or written.
@main struct Report {
  static func main() {
    var arguments = Array(CommandLine.arguments.dropFirst())
    let isUpdate = arguments.contains("--update")
    arguments.removeAll { $0 == "--update" }
    guard arguments.count == 3 || arguments.count == 4 else {
      stop("Usage: Report FOLDER THRESHOLDS ENVIRONMENT [--update] [PART OF A NAME]", status: 2)
    }
    let environment = arguments[2]
    let filter = arguments.count == 4 ? arguments[3] : ""
    do {
      let results = try Results.read(folder: arguments[0])
      guard !results.isEmpty else { stop("No benchmark has \"\(filter)\" in its name.", status: 2) }
      var thresholds = try Thresholds.read(file: arguments[1])
      let comparisons = results.map { Comparison($0, threshold: thresholds.limits[$0.name]) }
      print(Table.text(comparisons))
      let forbidden = comparisons.filter(\.allocatesWhereItMustNot).map(\.complaintAboutAllocating)
      if isUpdate {
        guard forbidden.isEmpty else { stop(forbidden.joined(separator: "\n"), status: 1) }
        thresholds.update(results, environment: environment, keepsOthers: !filter.isEmpty)
        try thresholds.write(file: arguments[1])
        print("\nThe thresholds are written.")
        return
      }
      print(summary(comparisons, thresholds, environment: environment))
      let complaints = comparisons.flatMap(\.complaints) + (filter.isEmpty ? unused(thresholds, results) : [])
      if !complaints.isEmpty { stop(complaints.joined(separator: "\n"), status: 1) }
    } catch {
      stop("\(error)", status: 3)
    }
  }

  private static func summary(
    _ comparisons: [Comparison], _ thresholds: Thresholds, environment: String
  ) -> String {
    var lines = [""]
    let better = comparisons.filter(\.isBetter).map(\.result.name)
    if !better.isEmpty {
      lines.append("Better than the threshold; ops/bench --update would lower it: \(better.joined(separator: " "))")
    }
    if let measured = thresholds.environment, measured != environment {
      lines.append("The thresholds were measured with \(measured).")
      lines.append("Here it is \(environment): instructions may differ.")
    }
    return lines.joined(separator: "\n")
  }

  private static func unused(_ thresholds: Thresholds, _ results: [Result]) -> [String] {
    let known = Set(results.map(\.name))
    return thresholds.limits.keys.filter { !known.contains($0) }.sorted().map {
      "\($0) has a threshold, but there is no such benchmark: ops/bench --update"
    }
  }

  private static func stop(_ text: String, status: Int32) -> Never {
    print(text)
    exit(status)
  }
}
