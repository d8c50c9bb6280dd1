internal import Foundation
internal import Testing

/// A TCP connection to this machine without any protocol.
final class RawConnection: Sendable {
  private let descriptor: Int32

  init(port: Int) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var timeout = timeval(tv_sec: 600, tv_usec: 0)
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
      _ = unsafe setsockopt(descriptor, SOL_SOCKET, option, &timeout, socklen_t(MemoryLayout<timeval>.size))
    }
    let result = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    try #require(result == 0)
  }

  deinit { close(descriptor) }

  /// Sends nothing more, and still receives.
  func closeOutput() { _ = shutdown(descriptor, Int32(SHUT_WR)) }

  /// - Returns: false when the other side takes no more.
  @discardableResult
  func send(_ text: String) -> Bool {
    let bytes = Array(text.utf8)
    var done = 0
    while done < bytes.count {
      let count = unsafe bytes.withUnsafeBytes {
        unsafe Foundation.send(
          descriptor, $0.baseAddress?.advanced(by: done), $0.count - done, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { return false }
      done += count
    }
    return true
  }

  /// Everything up to the end of the connection, or up to the text, on a thread of its own.
  func received(until text: String? = nil) async -> String {
    await withCheckedContinuation { continuation in
      Thread.detachNewThread { [descriptor] in
        var all: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 4096)
        while true {
          if let text, String(decoding: all, as: UTF8.self).contains(text) { break }
          let count = unsafe recv(descriptor, &block, text == nil ? block.count : 1, 0)
          guard count > 0 else {
            if count < 0, errno == EAGAIN { all += Array("[nothing came for 10 minutes]".utf8) }
            break
          }
          all += block[..<count]
        }
        continuation.resume(returning: String(decoding: all, as: UTF8.self))
      }
    }
  }
}
