internal import Foundation

/// Ports for servers that end and come back, for instance a gateway that is away for a while.
package enum OwnPort {
  /// The first of some ports in a row that nobody has at the moment.
  ///
  /// They are below those that the system assigns, so that no other program gets one by chance
  /// meanwhile. Another test may ask for the same: then take others.
  package static func random(count: Int = 1) -> Int {
    var port = 0
    repeat { port = Int.random(in: 15_000..<32_000) } while !(port..<(port + count)).allSatisfy(isFree)
    return port
  }

  private static func isFree(_ port: Int) -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    let result = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    return result == 0
  }
}
