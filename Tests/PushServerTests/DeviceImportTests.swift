internal import PushStore
internal import PushWire
internal import Testing

@testable internal import PushServer

@Suite("Imports of devices")
struct DeviceImportTests {
  @Test("an import is not empty while all of its devices are being stored")
  func devicesUnderWay() throws {
    var devices = DeviceImport(now: StoreInstant(milliseconds: 0), uptime: .start)
    #expect(devices.isEmpty)
    let line = String(repeating: "ab", count: 32) + "\n"
    #expect(try devices.take(Array("token\n\(line)".utf8)[...]).isEmpty)
    #expect(devices.takeBlock(now: .start).devices.count == 1)
    try devices.finish()
    #expect(!devices.isEmpty)
  }
}
