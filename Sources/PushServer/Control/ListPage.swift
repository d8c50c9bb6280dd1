/// A page of a list. One more than fits is read, so that the last page is known to be the last.
struct ListPage<Item> {
  let items: [Item]
  /// Nil: nothing follows. Otherwise the next page begins behind it.
  let last: Item?

  /// How many to read for a page.
  static func readLimit(_ limit: Int) -> Int { limit + 1 }

  /// - Parameters:
  ///   - found: from the beginning of the page on.
  ///   - limit: how many fit, from 1.
  init(_ found: [Item], limit: Int) {
    items = Array(found.prefix(limit))
    last = found.count > limit ? items.last : nil
  }
}
