internal import Foundation
internal import Support
internal import Testing

@testable internal import PushServer

@Suite("Watching files")
struct FileWatchTests {
  @Test("a credential that changes alone is noticed once two looks agree, and a mere touch is not")
  func changes() throws {
    let place = try Workplace()
    let (settings, key) = (place.path("carillon.yaml"), place.path("news.pem"))
    try place.write("apps: []", to: "carillon.yaml")
    try place.write("one", to: "news.pem")
    var watch = FileWatch([settings, key])
    func looks(_ count: Int) -> [[String]] { (0..<count).map { _ in watch.changes([settings, key]) } }
    #expect(looks(2) == [[], []])
    try place.write("three", to: "news.pem")
    #expect(looks(3) == [[], [key], []])
    // While it is written, each look finds something else.
    try place.write("half", to: "news.pem")
    #expect(looks(1) == [[]])
    try place.write("half and half", to: "news.pem")
    #expect(looks(3) == [[], [key], []])
    try FileManager.default.setAttributes([.modificationDate: Date(timeIntervalSince1970: 1)], ofItemAtPath: key)
    #expect(looks(3) == [[], [], []])
    try FileManager.default.removeItem(atPath: key)
    #expect(looks(3) == [[], [key], []])
    try place.write("back", to: "news.pem")
    #expect(looks(3) == [[], [key], []])
  }

  @Test("what was read because somebody asked for it is not read again because it has changed")
  func askedFor() async throws {
    let place = try Workplace()
    let settings = place.path("carillon.yaml")
    try place.write("apps: []", to: "carillon.yaml")
    let reloading = Reloading(manager: nil, files: { [settings] }) { ReloadReport() }
    func looks(_ count: Int) async -> [[String]] {
      var found: [[String]] = []
      for _ in 0..<count { found.append(await reloading.changedFiles()) }
      return found
    }
    try place.write("apps: [ ]", to: "carillon.yaml")
    #expect(await looks(3) == [[], [settings], []])
    try place.write("apps:  []", to: "carillon.yaml")
    #expect(await looks(1) == [[]])
    await reloading.reload()
    #expect(await looks(3) == [[], [], []])
    try place.write("apps:  [ ]", to: "carillon.yaml")
    #expect(await looks(3) == [[], [settings], []])
  }
}
