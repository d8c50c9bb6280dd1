/// Suggests a known word for a misspelt one.
package enum Suggestion {
  /// The closest known word: at most a third of the letters differ, or one is the other's prefix.
  package static func nearest(to word: String, in known: [String]) -> String? {
    // The cost is the product of the lengths. No known word is longer.
    guard word.utf8.count <= 256 else { return nil }
    let wanted = normalised(word)
    let best = known.map { ($0, distance(wanted, normalised($0))) }.min { $0.1 < $1.1 }
    if let (name, distance) = best, distance <= max(1, wanted.count / 3) { return name }
    return wanted.count >= 3
      ? known.first { normalised($0).starts(with: wanted) || wanted.starts(with: normalised($0)) } : nil
  }

  /// `maxBytes`, `max_bytes` and `max-bytes` count as the same word.
  private static func normalised(_ word: String) -> [Character] {
    Array(word.lowercased().filter { $0 != "-" && $0 != "_" })
  }

  /// The Damerau-Levenshtein distance: exchanging two neighbours counts as one.
  private static func distance(_ left: [Character], _ right: [Character]) -> Int {
    var rows = [Array(0...right.count)]
    for row in 1..<max(1, left.count + 1) {
      var current = [row]
      for column in 1..<max(1, right.count + 1) {
        let change = rows[row - 1][column - 1] + (left[row - 1] == right[column - 1] ? 0 : 1)
        var best = min(change, rows[row - 1][column] + 1, current[column - 1] + 1)
        if row > 1, column > 1, left[row - 1] == right[column - 2], left[row - 2] == right[column - 1] {
          best = min(best, rows[row - 2][column - 2] + 1)
        }
        current.append(best)
      }
      rows.append(current)
    }
    return rows[left.count][right.count]
  }
}
