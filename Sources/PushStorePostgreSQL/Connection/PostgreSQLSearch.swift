internal import CPostgreSQL
internal import Glibc
internal import PushStore

/// Looks for the server that can be written, among all hosts at the same time: libpq itself would
/// wait for ever for the first one, if that accepts connections and does not answer.
struct PostgreSQLSearch {
  private struct Place {
    let host: PostgreSQLSettings.Host
    var dial: PostgreSQLDial?
    /// When the dial is given up, or the next one begins.
    var turn = MonotonicTime.now
    var refusal: PostgreSQLRefusal?
    /// The connection was lost before it was known whose it was.
    var wasCut = false
  }

  private let servers: PostgreSQLServers
  private let password: String?
  private let knowsPrimary: Bool
  private var places: [Place]
  /// Until a host that could not be used is dialled again: a standby may be the primary by then.
  private var pause = Duration.milliseconds(100)

  /// The same for a host that is there.
  private static let longPause = Duration.seconds(2)
  private static let dialLimit = Duration.seconds(1)
  /// Two may be writable after a promotion, if nobody has ended the former primary.
  private static let choiceLimit = Duration.milliseconds(100)

  /// - Throws: ``StoreError``, `unusable`: the password cannot be read.
  init(_ servers: PostgreSQLServers) throws(StoreError) {
    self.servers = servers
    do throws(StoreError) { password = try servers.settings.password() } catch { throw servers.verdict(error) }
    knowsPrimary = servers.knowsPrimary
    places = servers.settings.hosts.map { Place(host: $0) }
  }

  /// The first host that can be written. As long as another may still answer, those that cannot be
  /// used are dialled again.
  ///
  /// - Throws: ``StoreError``: `unusable` if a host refuses this user or database, else `away`.
  mutating func first(by deadline: MonotonicTime) throws(StoreError) -> PostgreSQLConnection {
    var chosen: PostgreSQLConnection?
    var end = deadline
    repeat {
      dial()
      guard let found = found(by: end) else { continue }
      // Only later primaries are admitted.
      if knowsPrimary || chosen != nil { return found }
      chosen = found
      end = min(deadline, .after(Self.choiceLimit))
    } while end.millisecondsLeft > 0 && places.contains { $0.dial != nil }
    if let chosen { return chosen }
    throw failure
  }

  /// Waits until something moves on a connection, and meanwhile looks for a server that has taken
  /// the place of its one.
  ///
  /// - Returns: nil: something moves, or the deadline has passed.
  mutating func successor(of former: PostgreSQLConnection, by deadline: MonotonicTime) -> PostgreSQLConnection? {
    while deadline.millisecondsLeft > 0, !former.isMoving {
      dial()
      guard let found = found(by: deadline, beside: former.descriptor) else { continue }
      guard found.hasSession(of: former, by: min(deadline, .after(Self.dialLimit))) || former.isMoving else {
        return found
      }
      pause = Self.longPause
    }
    return nil
  }

  // MARK: Dialling

  private mutating func dial() {
    for index in places.indices where places[index].turn.millisecondsLeft == 0 {
      if places[index].dial != nil {
        places[index].refusal = PostgreSQLRefusal("\(places[index].host.text) does not answer")
      }
      dial(index)
    }
  }

  private mutating func dial(_ index: Int) {
    places[index].dial = PostgreSQLDial(servers.settings, places[index].host, password: password)
    places[index].turn = .after(Self.dialLimit)
  }

  /// Waits a little for one of the hosts.
  private mutating func found(by end: MonotonicTime, beside answer: pollfd? = nil) -> PostgreSQLConnection? {
    let none = pollfd(fd: -1, events: 0, revents: 0)
    var descriptors = places.map { $0.dial?.descriptor ?? none } + [answer ?? none]
    // Nothing announces that it is some host's turn.
    _ = unsafe poll(&descriptors, nfds_t(descriptors.count), Int32(clamping: min(50, end.millisecondsLeft)))
    for index in places.indices {
      guard let dial = places[index].dial else { continue }
      if descriptors[index].revents != 0, dial.advance() {
        if let connection = dial.take(servers), admit(connection, at: index, by: end) { return connection }
      } else if dial.hasFailed {
        refuse(PostgreSQLRefusal(places[index].host, dial.problem, servers.settings), at: index)
      }
    }
    return nil
  }

  private mutating func admit(_ connection: PostgreSQLConnection, at index: Int, by end: MonotonicTime) -> Bool {
    let host = places[index].host.text
    do throws(StoreError) { try connection.introduce(by: min(end, .after(Self.dialLimit))) } catch {
      refuse(PostgreSQLRefusal("\(host) does not answer"), at: index)
      // It was there a moment ago, so a connection that was cut is opened again, once.
      if !places[index].wasCut { dial(index) }
      places[index].wasCut = true
      return false
    }
    if let objection = servers.objection(to: connection.timeline) {
      refuse(PostgreSQLRefusal("\(host) \(objection)"), at: index)
      return false
    }
    (places[index].dial, places[index].turn) = (nil, .after(Self.longPause))
    return true
  }

  private mutating func refuse(_ refusal: PostgreSQLRefusal, at index: Int) {
    (places[index].dial, places[index].refusal, places[index].turn) = (nil, refusal, .after(pause))
  }

  private var failure: StoreError {
    let name = servers.settings.name
    let refusals = places.map { $0.refusal ?? PostgreSQLRefusal("\($0.host.text) does not answer") }
    let what = refusals.isEmpty ? "no host is known" : refusals.map(\.text).joined(separator: "; ")
    return servers.verdict(
      StoreError(
        refusals.contains(where: \.isFinal) ? .unusable : .away, path: name,
        "the database \(name) cannot be reached: \(what)"))
  }
}

extension PostgreSQLConnection {
  /// Connects to the host that can be written.
  ///
  /// - Throws: ``StoreError``: `unusable` if a host refuses this user or database, else `away`.
  static func open(
    _ servers: PostgreSQLServers, by deadline: MonotonicTime
  ) throws(StoreError) -> PostgreSQLConnection {
    var search = try PostgreSQLSearch(servers)
    return try search.first(by: deadline)
  }
}
