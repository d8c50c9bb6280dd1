internal import Foundation
internal import Synchronization

/// Ports for servers that end and come back, for instance a gateway that is away for a while.
package enum OwnPort {
  /// All that tests of this process have got: a server that is away comes back to its own.
  private static let given = Mutex<Set<Int>>([])

  /// The first of some ports in a row that nobody has at the moment, and no other test gets.
  ///
  /// They are below those that the system assigns, so that no other program gets one by chance
  /// meanwhile. Another process that runs tests may ask for the same: then take others.
  package static func random(count: Int = 1) -> Int {
    while true {
      let first = Int.random(in: 15_000..<32_000)
      let ports = first..<(first + count)
      let isOurs = given.withLock { given in
        guard given.isDisjoint(with: ports), ports.allSatisfy(isFree) else { return false }
        given.formUnion(ports)
        return true
      }
      if isOurs { return first }
    }
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
