internal import Foundation
internal import NIOCore
internal import NIOPosix
internal import PushTransport

/// Why the service cannot listen on an address: a sentence with the remedy.
package struct ListenFailure: Error, CustomStringConvertible {
  /// The key of the configuration, such as `api.listen`.
  let key: String
  let listen: Listen
  let reason: String

  /// - Parameter error: of the system.
  init(_ key: String, _ listen: Listen, _ error: any Error) {
    (self.key, self.listen) = (key, listen)
    reason =
      switch (error as? IOError)?.errnoCode {
      case EADDRINUSE?: "another process does; end it, or set \(key) to another port"
      case EADDRNOTAVAIL?: "this machine has no such address; set \(key) to one that it has"
      case EACCES?: "this user may not; set \(key) to a port from 1024 on"
      case let code?: "\(DiskState.message(code)); set \(key) to another address"
      case nil: "\(error); check \(key)"
      }
  }

  package var description: String { "it cannot listen on \(listen): \(reason)" }

  /// Binds an address for a moment; nil: that works.
  static func probe(_ key: String, _ listen: Listen) async -> ListenFailure? {
    do {
      let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .serverChannelOption(.socketOption(.so_reuseaddr), value: 1).bind(host: listen.host, port: listen.port).get()
      try await channel.close().get()
      return nil
    } catch {
      return ListenFailure(key, listen, error)
    }
  }
}

extension ServerConfiguration {
  /// Everything that the service listens on: what it is, its key, and the address.
  var listeners: [(subject: String, key: String, listen: Listen)] {
    var all = [("api", "api.listen", api.listen), ("admin", "admin.listen", admin.listen)]
    if let bridge {
      all.append(("bridge", "bridge.listen", bridge.listen))
      if let feedback = bridge.feedback { all.append(("bridge", "bridge.feedback", feedback)) }
    }
    return all
  }
}
