internal import Foundation
internal import Support
internal import Testing

@testable internal import PushServer

struct NodeFileTests {
  @Test("a journal keeps its name, and who had it last; a journal of an older version gets a name")
  func name() throws {
    let place = try Workplace()
    let folder = place.path("journal")
    let first = try NodeFile(folder: folder)
    #expect(!first.isOlder)
    #expect(first.incarnation == nil)
    #expect(try NodeFile(folder: folder).incarnation == nil)
    try first.write(7)
    let next = try NodeFile(folder: folder)
    #expect(next.journal == first.journal)
    #expect(next.incarnation == 7)
    #expect(!next.isOlder)
    try place.write("9\n", to: "journal/node")
    try place.write("", to: "journal/segment-000000000001.lz4")
    let older = try NodeFile(folder: folder)
    #expect(older.isOlder)
    #expect(older.incarnation == 9)
    #expect(older.journal != first.journal)
    #expect(try NodeFile(folder: folder).journal == older.journal)
    #expect(try !NodeFile(folder: folder).isOlder)
  }

  @Test("a folder that cannot be made is named")
  func unwritable() throws {
    let place = try Workplace()
    try place.write("a file", to: "file")
    #expect(throws: (any Error).self) { try NodeFile(folder: place.path("file/journal")) }
  }
}
