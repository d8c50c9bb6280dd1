internal import Testing

@testable internal import PushServer

@Suite("pages of lists")
struct ListPageTests {
  @Test("whoever follows the cursor gets everything once, in pages that are full but for the last")
  func pages() {
    for count in 0...9 {
      for limit in 1...5 {
        let all = Array(0..<count)
        var (found, pageCount): ([Int], Int) = ([], 0)
        var cursor: Int? = -1
        while let behind = cursor {
          let rest = all.filter { $0 > behind }.prefix(ListPage<Int>.readLimit(limit))
          let page = ListPage(Array(rest), limit: limit)
          #expect(page.items.count == limit || page.last == nil, "\(count), \(limit)")
          found += page.items
          pageCount += 1
          cursor = page.last
        }
        #expect(found == all, "\(count), \(limit)")
        #expect(pageCount == max(1, (count + limit - 1) / limit), "\(count), \(limit)")
      }
    }
  }

  @Test("a page also ends before it has too many bytes; an item with more is a page of its own")
  func bytes() {
    let sizes = [3, 3, 3, 20, 1, 9, 10, 0]
    var pages: [[Int]] = []
    var cursor: Int? = -1
    while let behind = cursor {
      let rest = sizes.indices.filter { $0 > behind }.prefix(ListPage<Int>.readLimit(3))
      let page = ListPage(Array(rest), limit: 3, byteLimit: 10) { sizes[$0] }
      pages.append(page.items)
      cursor = page.last
    }
    #expect(pages == [[0, 1, 2], [3], [4, 5], [6, 7]])
  }
}
