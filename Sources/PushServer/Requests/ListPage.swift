/// A page of a list. One more than fits is read, so that the last page is known to be the last.
struct ListPage<Item: Sendable>: Sendable {
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

  /// - Parameters:
  ///   - byteLimit: of all items together. A larger one is a page of its own.
  ///   - byteCount: the size of an item.
  init(_ found: [Item], limit: Int, byteLimit: Int, byteCount: (Item) -> Int) {
    var (total, count) = (0, 0)
    for item in found.prefix(limit) {
      total += byteCount(item)
      guard count == 0 || total <= byteLimit else { break }
      count += 1
    }
    self.init(found, limit: max(1, count))
  }
}
