internal import Glibc

/// What names of hosts lead to.
package enum HostAddresses {
  /// The numeric addresses of a name; empty if there are none, which connecting reports. Blocks.
  package static func resolve(_ host: String) -> [String] {
    var hints = unsafe addrinfo()
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var first: UnsafeMutablePointer<addrinfo>?
    guard unsafe getaddrinfo(host, nil, &hints, &first) == 0 else { return [] }
    defer { unsafe freeaddrinfo(first) }
    var addresses: [String] = []
    var entry = unsafe first
    while let current = unsafe entry {
      var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
      let status = unsafe getnameinfo(
        current.pointee.ai_addr, current.pointee.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
      if status == 0 {
        addresses.append(String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self))
      }
      unsafe entry = current.pointee.ai_next
    }
    return addresses
  }

  /// The four or sixteen bytes of a numeric address, without the name of an interface behind it;
  /// nil for any other text.
  package static func bytes(_ address: String) -> [UInt8]? {
    SystemCall.addressBytes(String(address.prefix { $0 != "%" }))
  }
}
