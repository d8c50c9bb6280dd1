internal import Foundation
internal import Synchronization

/// A socket on which a service manager would hear from its services.
package final class DatagramSocket: Sendable {
  /// A short one: a socket's path has at most 107 bytes.
  package let path: String
  private let descriptor: Int32
  private let texts = Mutex<[String]>([])

  private struct NotMade: Error, CustomStringConvertible {
    let description: String
  }

  package init() throws {
    path = "/tmp/carillon-notify-\(UInt64.random(in: 0 ... .max))"
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var name = sockaddr_un()
    name.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &name.sun_path) { [path] in unsafe $0.copyBytes(from: path.utf8) }
    let result = unsafe withUnsafePointer(to: &name) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { [descriptor] in
        unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard result == 0 else { throw NotMade(description: "no socket at \(path): errno \(errno)") }
  }

  deinit {
    close(descriptor)
    try? FileManager.default.removeItem(atPath: path)
  }

  /// Everything that was sent so far, in order.
  package var received: [String] {
    texts.withLock { texts in
      var block = [UInt8](repeating: 0, count: 4096)
      while true {
        let count = unsafe recv(descriptor, &block, block.count, Int32(MSG_DONTWAIT))
        guard count > 0 else { break }
        texts.append(String(decoding: block[..<count], as: UTF8.self))
      }
      return texts
    }
  }
}
