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
}
