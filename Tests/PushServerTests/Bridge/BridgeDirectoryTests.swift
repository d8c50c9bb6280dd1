internal import Carillon
internal import PushServer
internal import PushTransport
internal import Testing

@Suite("Which clients belong to which app")
struct BridgeDirectoryTests {
  @Test("a pinned certificate that cannot be read is told, and the clients of other apps are known")
  func unreadable() throws {
    let digest = String(repeating: "ab", count: 32)
    let tenants = [("news", "/nowhere/client.pem"), ("chat", "sha256:\(digest)")].map { id, pin in
      var tenant = Tenant(
        AppConfiguration(id: id, topic: nil, transport: .binary(), credential: .certificate(file: "")))
      tenant.bridgeClients = [pin]
      return tenant
    }
    #expect(throws: CarillonError.self) { try BridgeDirectory(tenants, at: 0) }
    var told: [String] = []
    _ = try BridgeDirectory(tenants, at: 0) { app, error in
      told.append(app)
      #expect(error.message.contains("/nowhere/client.pem"))
    }
    #expect(told == ["news"])
    var wrong = tenants
    wrong[0].bridgeClients = ["sha256:short"]
    #expect(throws: CarillonError.self) { try BridgeDirectory(wrong, at: 0) { _, _ in } }
  }
}
