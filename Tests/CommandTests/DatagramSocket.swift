internal import Foundation
internal import Synchronization
internal import Testing

/// A socket on which a service manager would hear from its services.
final class DatagramSocket: Sendable {
  private let descriptor: Int32
  private let texts = Mutex<[String]>([])

  init(path: String) throws {
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var name = sockaddr_un()
    name.sun_family = sa_family_t(AF_UNIX)
    try #require(path.utf8.count < 108, "the path is too long: \(path)")
    unsafe withUnsafeMutableBytes(of: &name.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
    let result = unsafe withUnsafePointer(to: &name) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    try #require(result == 0, "\(path)")
  }

  deinit { close(descriptor) }

  /// Everything that was sent so far, in order.
  var received: [String] {
    var block = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = unsafe recv(descriptor, &block, block.count, Int32(MSG_DONTWAIT))
      guard count > 0 else { break }
      texts.withLock { $0.append(String(decoding: block[..<count], as: UTF8.self)) }
    }
    return texts.withLock { $0 }
  }
}
