/// Which rows of a CSV file belong to a campaign: those whose column has one of some texts, or any
/// other.
package struct RowSelection: Sendable {
  /// Nil: the file has no such column, as if it were empty in every row.
  let column: Int?
  let texts: Set<String>
  /// Rows with any other text are selected instead.
  let isRest: Bool
  /// Lines that are no rows of the file are selected.
  let hasMalformed: Bool

  package init(column: Int?, texts: Set<String>, isRest: Bool, hasMalformed: Bool) {
    (self.column, self.texts, self.isRest, self.hasMalformed) = (column, texts, isRest, hasMalformed)
  }

  func contains(_ text: UnsafeRawBufferPointer) -> Bool {
    unsafe texts.contains(String(decoding: text, as: UTF8.self)) != isRest
  }
}
