/// Ports for servers that end and come back, for instance a gateway that is away for a while.
package enum OwnPort {
  /// Below the ports that the system assigns, so no other program gets it by chance meanwhile.
  /// Somebody may have it: then take another.
  package static func random() -> Int { Int.random(in: 15_000..<32_000) }
}
