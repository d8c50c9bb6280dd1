internal import Foundation
internal import Support
internal import Testing

@testable internal import PushServer

struct NodeFileTests {
  @Test("a journal keeps its name, and who had it last; that of an older version is called as its host was")
  func name() throws {
    let place = try Workplace()
    let folder = place.path("journal")
    func read() -> NodeFile { NodeFile(folder: folder, host: "host") }
    #expect(read().journal != read().journal)
    #expect(throws: (any Error).self) { try read().keep() }
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let first = read()
    try first.keep()
    #expect(read().journal == first.journal)
    #expect(read().incarnation == nil)
    try first.write(7)
    #expect(read().journal == first.journal)
    #expect(read().incarnation == 7)
    try read().keep()
    #expect(read().incarnation == 7)
    try place.write("9\n", to: "journal/node")
    try place.write("", to: "journal/segment-000000000001.lz4")
    #expect(read().journal == "host")
    #expect(read().incarnation == 9)
    try read().keep()
    #expect(read().incarnation == 9)
    try FileManager.default.removeItem(atPath: place.path("journal/segment-000000000001.lz4"))
    #expect(read().journal == "host")
  }
}
