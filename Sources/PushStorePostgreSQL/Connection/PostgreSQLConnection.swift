internal import CPostgreSQL
internal import Glibc
internal import PushStore

/// A session with the server. It belongs to one thread at a time.
///
/// libpq never waits here: everything that could goes through `poll` with a deadline, because a
/// server that is stopped keeps its connections open.
///
/// Sync: whoever has it lets one thread use it at a time.
@safe final class PostgreSQLConnection: @unchecked Sendable {
  /// Warnings of the statements that run. libpq has its address.
  private final class Notices {
    /// The server says that it could not wait for its standby: what was committed may be lost.
    var hasUnreplicatedCommit = false
  }

  private let connection: OpaquePointer
  private let servers: PostgreSQLServers
  private var name: String { servers.settings.name }
  private let notices = Notices()
  /// The names of prepared statements, by their text.
  private var prepared: [String: String] = [:]
  /// It can be used no longer.
  private(set) var isBroken = false
  /// Of the server; nil: it does not say.
  private(set) var timeline: PostgreSQLTimeline?
  /// The process that serves it there. What libpq knows may be a proxy's.
  private var session: Int64?
  /// What its server does, if that was asked after a silence.
  private var work: Work?
  /// To the server that has taken the place of this one's.
  private(set) var successor: PostgreSQLConnection?
  /// Of the socket.
  private var awaited = Int16(POLLIN)
  /// Whether a silent server is looked for elsewhere.
  private var looksAround = true
  /// Others wait for a standby already, so trying again does not help.
  private(set) var refusesCommits = false
  /// What runs ends with a commit, which may wait for a standby.
  private var commits = false
  /// The same was asked for before, and may have been carried out: its answer was lost.
  var isRepeating = false
  /// Whether this session has the table of imports; nil: nobody has asked for it.
  var hasImportTable: Bool?

  private enum Work { case statement, waitForStandby }

  /// A server that has said nothing for so long may have been replaced.
  private static let silence = Duration.milliseconds(500)

  /// - Parameter connection: open; closed with this object.
  init(_ connection: OpaquePointer, _ servers: PostgreSQLServers) {
    unsafe (self.connection, self.servers) = unsafe (connection, servers)
    _ = unsafe PQsetnonblocking(connection, 1)
    unsafe PQsetNoticeReceiver(
      connection,
      { context, result in
        guard let context = unsafe context, let code = unsafe PQresultErrorField(result, Field.code) else { return }
        // 01000 has no number of its own for "canceling wait for synchronous replication".
        guard unsafe String(cString: code) == "01000" else { return }
        unsafe Unmanaged<Notices>.fromOpaque(context).takeUnretainedValue().hasUnreplicatedCommit = true
      }, Unmanaged.passUnretained(notices).toOpaque())
  }

  deinit { unsafe PQfinish(connection) }

  /// Letters of the fields of an error (postgres_ext.h), which Swift does not import.
  private enum Field {
    static let code = Int32(UInt8(ascii: "C"))
    static let message = Int32(UInt8(ascii: "M"))
  }

  // MARK: Statements

  /// Runs statements in one round trip, all or none of them.
  ///
  /// - Throws: ``StoreError``; `away` if the connection was lost, or the deadline passed: the
  ///   statements may have been carried out.
  func transaction(
    _ statements: [PostgreSQLStatement], by deadline: MonotonicTime
  ) throws(StoreError) -> [PostgreSQLRows] {
    let rows = try run([PostgreSQLStatement("BEGIN")] + statements + Self.ending, by: deadline)
    return Array(rows.dropFirst().dropLast(2))
  }

  /// A transaction that finds everything in place already would write nothing, and its commit wait
  /// for no standby. What is in place may be on this server only: its own commit was in doubt.
  private static let ending = [
    PostgreSQLStatement("SELECT pg_logical_emit_message(true, 'carillon', '')"), PostgreSQLStatement("COMMIT"),
  ]

  /// A transaction in which the rows of the last of its first statements decide what follows.
  func transaction(
    _ statements: [PostgreSQLStatement], by deadline: MonotonicTime,
    _ body: (PostgreSQLRows) throws(StoreError) -> [PostgreSQLStatement]
  ) throws(StoreError) {
    let found = try run([PostgreSQLStatement("BEGIN")] + statements, by: deadline)[statements.count]
    _ = try run(try body(found) + Self.ending, by: deadline)
  }

  /// Runs statements in one round trip. Only for those that write nothing, and those between a
  /// BEGIN and a COMMIT of their own: the server commits what is left when it answers the end.
  func run(_ statements: [PostgreSQLStatement], by deadline: MonotonicTime) throws(StoreError) -> [PostgreSQLRows] {
    try admit(from: statements.first?.sql, to: statements.last?.sql)
    defer { commits = false }
    guard unsafe PQenterPipelineMode(connection) == 1 else { throw broken("it has no pipeline") }
    let added = try send(statements)
    var rows: [PostgreSQLRows] = []
    var problem: StoreError?
    for index in 0..<statements.count {
      if let name = added[index] {
        if try result(by: deadline, &problem) != nil { prepared[statements[index].sql] = name }
      }
      if let found = try result(by: deadline, &problem) { rows.append(found) }
    }
    try end(by: deadline)
    if let problem {
      try rollBack(by: deadline)
      throw problem
    }
    if notices.hasUnreplicatedCommit { throw broken("a commit did not wait for the standby") }
    return rows
  }

  /// - Returns: by index, the names of statements that are prepared first.
  private func send(_ statements: [PostgreSQLStatement]) throws(StoreError) -> [Int: String] {
    var added: [Int: String] = [:]
    var names: [String: String] = [:]
    for (index, statement) in statements.enumerated() {
      var name = prepared[statement.sql] ?? names[statement.sql]
      if name == nil {
        let new = "s\(prepared.count + names.count)"
        let types = statement.values.map(\.type)
        guard unsafe PQsendPrepare(connection, new, statement.sql, Int32(types.count), types) == 1 else {
          throw broken("a statement cannot be sent")
        }
        (name, added[index], names[statement.sql]) = (new, new, new)
      }
      guard let name, try send(name, statement.values) else { throw broken("a statement cannot be sent") }
    }
    guard unsafe PQpipelineSync(connection) == 1 else { throw broken("a statement cannot be sent") }
    return added
  }

  private func send(_ name: String, _ values: [PostgreSQLValue]) throws(StoreError) -> Bool {
    // One piece of memory for all of them: libpq copies it.
    var memory: [UInt8] = []
    var places: [(start: Int, count: Int)?] = []
    for value in values {
      guard let bytes = value.binary else {
        places.append(nil)
        continue
      }
      places.append((memory.count, bytes.count))
      memory += bytes
      // Also an empty value has an address.
      memory.append(0)
    }
    let lengths = places.map { Int32($0?.count ?? 0) }
    let formats = [Int32](repeating: 1, count: values.count)
    return unsafe memory.withUnsafeBytes { bytes in
      let pointers = unsafe places.map { place in
        unsafe place.flatMap { unsafe bytes.baseAddress?.advanced(by: $0.start).assumingMemoryBound(to: CChar.self) }
      }
      return unsafe PQsendQueryPrepared(connection, name, Int32(values.count), pointers, lengths, formats, 1) == 1
    }
  }

  /// The result of the next command; nil if it failed, or an earlier one did.
  private func result(by deadline: MonotonicTime, _ problem: inout StoreError?) throws(StoreError) -> PostgreSQLRows? {
    guard let result = unsafe try next(by: deadline) else { throw broken("an answer is missing") }
    let rows = unsafe PostgreSQLRows(result)
    let status = unsafe PQresultStatus(result)
    if status == PGRES_FATAL_ERROR, problem == nil { problem = unsafe error(result) }
    let hasFailed = status == PGRES_FATAL_ERROR || status == PGRES_PIPELINE_ABORTED
    // Behind each command's results comes none.
    if let other = unsafe try next(by: deadline) {
      unsafe PQclear(other)
      throw broken("an answer is not understood")
    }
    return hasFailed ? nil : rows
  }

  private func end(by deadline: MonotonicTime) throws(StoreError) {
    guard let result = unsafe try next(by: deadline) else { throw broken("an answer is missing") }
    defer { unsafe PQclear(result) }
    guard unsafe PQresultStatus(result) == PGRES_PIPELINE_SYNC, unsafe PQexitPipelineMode(connection) == 1 else {
      throw broken("an answer is not understood")
    }
  }

  private func rollBack(by deadline: MonotonicTime) throws(StoreError) {
    guard unsafe PQtransactionStatus(connection) != PQTRANS_IDLE else { return }
    guard unsafe PQsendQuery(connection, "ROLLBACK") == 1 else { throw broken("it cannot roll back") }
    while let result = unsafe try next(by: deadline) { unsafe PQclear(result) }
    guard unsafe PQtransactionStatus(connection) == PQTRANS_IDLE else { throw broken("it cannot roll back") }
  }

  /// Statements that cannot be prepared, such as those of a schema, in one round trip.
  func script(_ sql: String, by deadline: MonotonicTime) throws(StoreError) {
    try admit(from: sql, to: sql)
    defer { commits = false }
    guard unsafe PQsendQuery(connection, sql) == 1 else { throw broken("a statement cannot be sent") }
    try answer(by: deadline)
  }

  /// All results of what was sent last.
  private func answer(by deadline: MonotonicTime) throws(StoreError) {
    var problem: StoreError?
    while let result = unsafe try next(by: deadline) {
      if unsafe PQresultStatus(result) == PGRES_FATAL_ERROR, problem == nil { problem = unsafe error(result) }
      unsafe PQclear(result)
    }
    if let problem {
      try rollBack(by: deadline)
      throw problem
    }
    if notices.hasUnreplicatedCommit { throw broken("a commit did not wait for the standby") }
  }

  /// To be asked before statements are sent: if others wait for a standby already, a transaction
  /// that begins here would end with a commit that waits, too.
  private func admit(from first: String?, to last: String?) throws(StoreError) {
    refusesCommits = first?.hasPrefix("BEGIN") == true && !servers.hasRoomForCommits()
    if refusesCommits { throw .unreplicated(name) }
    (notices.hasUnreplicatedCommit, work, commits) = (false, nil, last == "COMMIT")
  }

  // MARK: The server

  private static let introduction = PostgreSQLStatement(
    """
    SELECT pg_backend_pid(), (pg_control_system()).system_identifier,
      ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
    """)

  /// Asks which server this is. Call it before anything else.
  ///
  /// - Throws: ``StoreError``, `away`.
  func introduce(by deadline: MonotonicTime) throws(StoreError) {
    looksAround = false
    defer { looksAround = true }
    do throws(StoreError) {
      let row = try run([Self.introduction], by: deadline)[0]
      session = row.int(0, 0)
      timeline = PostgreSQLTimeline(system: row.int(0, 1), number: row.int(0, 2))
    } catch {
      guard !isBroken else { throw error }
    }
  }

  /// Whether another connection has a session here, too, and is not answered because its statement
  /// takes so long. True if that cannot be found out.
  func hasSession(of other: PostgreSQLConnection, by deadline: MonotonicTime) -> Bool {
    guard timeline == other.timeline else { return false }
    guard let session = other.session else { return true }
    looksAround = false
    defer { looksAround = true }
    let find = PostgreSQLStatement(
      "SELECT coalesce(wait_event, '') FROM pg_stat_activity WHERE pid = $1", .int(session))
    guard let found = try? run([find], by: deadline)[0] else { return true }
    guard found.count == 1 else { return false }
    other.work = found.text(0, 0) == "SyncRep" ? .waitForStandby : .statement
    return true
  }

  // MARK: Copying

  /// Begins a COPY to the server.
  func begin(copy sql: String, by deadline: MonotonicTime) throws(StoreError) {
    guard unsafe PQsendQuery(connection, sql) == 1 else { throw broken("a statement cannot be sent") }
    guard let result = unsafe try next(by: deadline) else { throw broken("an answer is missing") }
    defer { unsafe PQclear(result) }
    if unsafe PQresultStatus(result) == PGRES_COPY_IN { return }
    let problem = unsafe error(result)
    while let other = unsafe try next(by: deadline) { unsafe PQclear(other) }
    try rollBack(by: deadline)
    throw problem
  }

  /// Returns when the system has the bytes.
  func put(_ bytes: ArraySlice<UInt8>, by deadline: MonotonicTime) throws(StoreError) {
    let isTaken = unsafe bytes.withUnsafeBytes { bytes in
      unsafe PQputCopyData(
        connection, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(bytes.count)) == 1
    }
    guard isTaken else { throw broken(message) }
    while true {
      let unsent = unsafe PQflush(connection)
      guard unsent >= 0 else { throw broken(message) }
      if unsent == 0 { return }
      guard unsafe Self.wait(for: PQsocket(connection), Int16(POLLOUT), by: deadline) else {
        throw broken("no answer in time")
      }
    }
  }

  func endCopy(by deadline: MonotonicTime) throws(StoreError) {
    guard unsafe PQputCopyEnd(connection, nil) == 1 else { throw broken(message) }
    try answer(by: deadline)
  }

  // MARK: Waiting

  /// For `poll`.
  var descriptor: pollfd { unsafe pollfd(fd: PQsocket(connection), events: awaited, revents: 0) }

  /// Whether the server has done something: an answer, or it reads what is not sent yet, or has
  /// closed the connection.
  var isMoving: Bool {
    var descriptor = descriptor
    return unsafe poll(&descriptor, 1, 0) != 0
  }

  /// The next result, once it is there.
  private func next(by deadline: MonotonicTime) throws(StoreError) -> OpaquePointer? {
    var patience = looksAround ? min(deadline, .after(Self.silence)) : deadline
    while true {
      let unsent = unsafe PQflush(connection)
      guard unsent >= 0 else { throw broken(message) }
      if unsafe PQisBusy(connection) == 0 { return unsafe PQgetResult(connection) }
      awaited = Int16(unsent == 0 ? POLLIN : POLLIN | POLLOUT)
      if unsafe Self.wait(for: PQsocket(connection), awaited, by: patience) {
        guard unsafe PQconsumeInput(connection) == 1 else { throw broken(message) }
        continue
      }
      guard deadline.millisecondsLeft > 0 else { throw late() }
      if var search = try? PostgreSQLSearch(servers) { successor = search.successor(of: self, by: deadline) }
      if successor != nil { throw broken("another server is the primary now") }
      patience = min(deadline, .after(Self.silence))
    }
  }

  private func late() -> StoreError {
    guard work == .waitForStandby else { return broken("no answer in time") }
    isBroken = true
    if commits { servers.keep(self) }
    return .unreplicated(name)
  }

  /// - Returns: false if the deadline passed.
  static func wait(for socket: Int32, _ events: Int16, by deadline: MonotonicTime) -> Bool {
    while true {
      let left = deadline.millisecondsLeft
      guard left > 0 else { return false }
      var descriptor = pollfd(fd: socket, events: events, revents: 0)
      let count = unsafe poll(&descriptor, 1, Int32(clamping: left))
      if count > 0 { return true }
      guard count == 0 || errno == EINTR else { return true }
    }
  }

  // MARK: Errors

  private var message: String {
    unsafe String(cString: PQerrorMessage(connection)).split(separator: "\n").first.map(String.init)
      ?? "the connection was lost"
  }

  private func broken(_ what: String) -> StoreError {
    isBroken = true
    return .away(name, what)
  }

  private func error(_ result: OpaquePointer) -> StoreError {
    let code = unsafe PQresultErrorField(result, Field.code).map { unsafe String(cString: $0) } ?? ""
    let text = unsafe PQresultErrorField(result, Field.message).map { unsafe String(cString: $0) } ?? message
    let error = StoreError(postgreSQL: code, text, name: name)
    // Whoever is shut down, or is a standby now, has to be dialled again.
    if error.kind == .away, !StoreError.isConflict(code) { isBroken = true }
    return error
  }
}

/// A point of the monotonic clock.
struct MonotonicTime: Comparable, Sendable {
  private let nanoseconds: Int64

  private init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  static var now: MonotonicTime {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return MonotonicTime(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
  }

  static func after(_ duration: Duration) -> MonotonicTime {
    MonotonicTime(nanoseconds: now.nanoseconds + Int64(duration / .nanoseconds(1)))
  }

  /// Rounded up; 0 once it has passed.
  var millisecondsLeft: Int64 { max(0, (nanoseconds - Self.now.nanoseconds + 999_999) / 1_000_000) }

  static func < (first: MonotonicTime, second: MonotonicTime) -> Bool { first.nanoseconds < second.nanoseconds }
}

extension StoreError {
  static func away(_ name: String, _ what: String) -> StoreError {
    StoreError(.away, path: name, "the database \(name) does not answer: \(what)")
  }

  /// A commit gets no acknowledgement.
  static func unreplicated(_ name: String) -> StoreError {
    .away(name, "commits wait for a synchronous standby; bring one back, or change synchronous_standby_names")
  }

  /// Two transactions wanted the same: the same again can succeed at once. 22012, division by zero,
  /// is of a batch that was counted meanwhile (see PostgreSQLStore): its first attempt, given up
  /// without an answer, waited for a standby.
  static func isConflict(_ code: String) -> Bool { ["40001", "40P01", "55P03", "22012"].contains(code) }

  /// - Parameter code: an SQLSTATE (PostgreSQL, appendix A).
  init(postgreSQL code: String, _ text: String, name: String) {
    let what = "the database \(name): \(text) (\(code))"
    switch code {
    case "53100": self.init(.full, path: name, what)
    // Wrong user, password, database or rights.
    case "28000", "28P01", "3D000", "42501": self.init(.unusable, path: name, what)
    // Read-only: a standby, or one that was demoted. Others are shut down, or have no place.
    case "25006", "53300", "57P01", "57P02", "57P03": self.init(.away, path: name, what)
    default:
      self.init(Self.isConflict(code) || code.hasPrefix("08") ? .away : .failed, path: name, what)
    }
  }
}
