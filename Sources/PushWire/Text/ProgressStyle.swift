/// How progress is shown.
package enum ProgressStyle: Hashable, Sendable {
  /// Redrawn in place, this many columns wide.
  case terminal(columns: Int)
  /// Lines that stay.
  case log
}
