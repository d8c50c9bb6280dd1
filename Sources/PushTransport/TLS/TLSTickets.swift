internal import COpenSSL
internal import Synchronization

/// What the last session of a client's context left for the next. With a server that sends tickets,
/// a handshake then needs no certificates (RFC 8446, section 2.2), which are most of its cost. A
/// binary gateway ends a connection with each refused token, so there are many handshakes.
final class TLSTickets: Sendable {
  /// One reference to an SSL_SESSION.
  @safe private final class Ticket: @unchecked Sendable {
    // Sync: OpenSSL counts references atomically and does not change a session that has been passed
    // on.
    let pointer: OpaquePointer
    let host: String

    init(taking pointer: OpaquePointer, host: String) {
      unsafe self.pointer = pointer
      self.host = host
    }

    deinit { unsafe SSL_SESSION_free(pointer) }
  }

  private struct State {
    var last: Ticket?
    var isGivenUp = false
  }

  private let state = Mutex(State())

  /// Takes over the caller's reference. Returns false if the ticket is not kept.
  func keep(_ session: OpaquePointer, host: String) -> Bool {
    let ticket: Ticket? = state.withLock { state in
      guard !state.isGivenUp else { return nil }
      let ticket = unsafe Ticket(taking: session, host: host)
      state.last = ticket
      return ticket
    }
    return ticket != nil
  }

  /// Puts the last ticket of that host, if there is one, into a session that has not begun.
  func offer(to ssl: OpaquePointer, host: String) -> Bool {
    guard let ticket = state.withLock({ $0.last }), ticket.host == host else { return false }
    return unsafe SSL_set_session(ssl, ticket.pointer) == 1
  }

  /// The next handshake is a full one.
  func forget() { state.withLock { $0.last = nil } }

  /// A handshake with a ticket failed. Some servers fail on their own tickets, so this one is
  /// offered no more.
  func giveUp() {
    state.withLock { state in
      state.last = nil
      state.isGivenUp = true
    }
  }
}
