internal import Foundation

/// The results as a table: one line for each workload, numbers aligned to the right.
enum Table {
  private static let titles = [
    "", "operations", "allocations/op", "at most", "instructions/op", "at most", "ns/op",
  ]
  private static let widths = [20, 28, 17, 9, 15, 9, 10]

  static func text(_ comparisons: [Comparison]) -> String {
    ([titles] + comparisons.map(row)).map(line).joined(separator: "\n")
  }

  private static func row(_ comparison: Comparison) -> [String] {
    let result = comparison.result
    let operations = Double(result.operations)
    return [
      result.name, "\(result.operations) \(result.unit)", digits(Double(result.allocations) / operations),
      comparison.threshold.map { digits(Double($0.allocations) / operations) } ?? "-",
      digits(result.instructionsPerOperation), comparison.mostInstructions.map(digits) ?? "-",
      result.time.map { digits($0 / operations) } ?? "-", comparison.verdict,
    ]
  }

  private static func line(_ cells: [String]) -> String {
    var text = ""
    for (index, cell) in cells.enumerated() {
      if index > 0 { text += " " }
      guard index < widths.count else {
        text += cell
        continue
      }
      text += index == 0 ? left(cell, widths[index]) : right(cell, widths[index])
    }
    return text
  }

  static func left(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.count))
  }

  static func right(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }

  /// As many decimals as are significant.
  static func digits(_ value: Double) -> String {
    if value == 0 { return "0" }
    return fixed(value, value < 0.01 ? 4 : value < 100 ? 2 : 0)
  }

  static func fixed(_ value: Double, _ places: Int) -> String { String(format: "%.\(places)f", value) }
}
