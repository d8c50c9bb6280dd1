internal import Carillon
internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushTransport
internal import PushWire

struct NotificationRoutes: Sendable {
  let access: ControlAccess
  let store: any Store
  let outcomes: OutcomeRecorder
  let intake: IntakeLimit

  func add(to router: Router<ControlContext>) {
    let app = router.group("v1/apps/{app}")
    app.post("notifications", use: postNotification)
    app.post("notifications:batch") { request, context in
      try await withParsingPool { try await postBatch(request, context) }
    }
    app.get("notifications/{id}", use: getNotification)
    app.get("batches/{id}", use: getBatch)
  }

  private func postNotification(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .send)
    try intake.demandRoom(app)
    try request.bodyType([.json])
    let bytes = try await access.body(of: request, context, under: grant)
    let body = try await Self.read(bytes, key: grant.keyID)
    let room = try intake.reserve(bytes.count, app)
    let token: DeviceToken
    if let id = body.device {
      guard let device = try await store.device(id: id, app: app.id) else { throw Self.unknownDevice(id) }
      guard !device.isSuppressed else {
        try demandStore()
        let id = suppress([(token: device.token, reference: body.reference)], app).first
        try await demandChanges()
        return Self.accepted(id, state: "finished")
      }
      token = try DeviceToken(bytes: device.token)
    } else if let known = body.token {
      token = known
    } else {
      token = try DeviceToken(bytes: PushNotification.broadcastToken)
    }
    let notification = try app.prepare(body.notification)
    guard app.hasRoom(for: notification) else {
      throw Problem(
        .tooManyRequests, "Too many channels", "As many channels of this app as may be at one time are in use.",
        action: "Wait until broadcasts to other channels have been sent, which frees each of them within a minute.",
        retryAfter: 60)
    }
    let (reference, isShared) = (body.reference, intake.isShared(app.id))
    let needsStore = reference != nil || isShared
    if needsStore { try demandStore() }
    let ids = try await app.submit([(notification, token)], isShared: isShared) { _, run, line in
      if isShared { outcomes.keep(run, from: line, app: app.id, [(notification, token)]) }
      guard let reference else { return }
      let id = StoredNotificationID(run: StoredRunID(run), line: line)
      outcomes.change { $0.references.append((id, reference)) }
    } queued: {
      room.release()
    }
    guard let id = ids.first else { throw Problem.unavailable("The notification was not taken in.") }
    if needsStore { try await demandChanges() }
    return Self.accepted(id, state: "queued", warnings: notification.requestWarnings)
  }

  /// A large body, which can only be refused, is not read on the event loop.
  private static func read(_ bytes: [UInt8], key: String) async throws -> NotificationRequest {
    guard bytes.count > BodyMemory.smallByteCount else { return try NotificationRequest(parsing: bytes[...]) }
    return try await withParsingPool {
      try await ParsingPool.shared.turn(of: key) { try NotificationRequest(parsing: bytes[...]) }
    }
  }

  private static func accepted(_ id: NotificationID?, state: String, warnings: [String] = []) -> Response {
    .json(.accepted) { json in
      json.field("id", id.map { "\($0)" })
      json.field("state", state)
      if !warnings.isEmpty { json.field("warnings", warnings) }
    }
  }

  private static func unknownDevice(_ id: StoredUUID) -> Problem {
    Problem(.unprocessableContent, "Unknown device", "There is no device \(id.text).", pointer: "/deviceId")
  }

  private func postBatch(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .send)
    try intake.demandRoom(app)
    try request.bodyType([.json, .lines])
    let bytes = try await access.body(of: request, context, under: grant)
    var body = try await BatchRequest.read(bytes, app: app, key: grant.keyID)
    guard !body.notifications.isEmpty || !body.devices.isEmpty || !body.users.isEmpty || body.rejectedCount > 0 else {
      throw Problem.malformed("The body has no notification.")
    }
    // While the body came, others may have filled the queue.
    let room = try intake.reserve(bytes.count, app)
    if !body.devices.isEmpty { body.resolve(try await devices(body.devices.map(\.id), app)) }
    let knownCount = body.notifications.count
    if !body.users.isEmpty { body.resolve(users: try await devices(ofUsers: body.users.map(\.user), app)) }
    let addedCount = body.notifications.count - knownCount
    let users = addedCount > 0 ? try intake.reserve(addedCount * Self.entryByteCount, app) : nil
    // Reading a large body takes a while.
    try await grant.demand()
    try demandStore()
    let (name, batch) = makeBatch(of: app, rejectedCount: body.rejectedCount)
    if !body.notifications.isEmpty {
      try await submit(body.notifications, body.references, to: app, as: batch) {
        room.release()
        users?.release()
      }
    }
    if body.notifications.isEmpty || !body.suppressed.isEmpty { suppress(body.suppressed, app, in: batch) }
    try await demandChanges()
    return .json(.accepted) { json in
      json.field("batchId", "\(name)")
      let queuedCount = body.notifications.count + body.suppressed.count
      json.field("queued", queuedCount)
      // Its name before "accepted" meant the gateway's word only.
      json.field("accepted", queuedCount)
      json.field("rejected", body.rejectedCount)
      json.lines("errors", body.errors)
      if !body.warnings.isEmpty { json.lines("warnings", body.warnings) }
    }
  }

  /// To be asked before something is taken in that needs a row in the store.
  ///
  /// - Throws: ``Problem`` with 503. Nothing was taken in then.
  func demandStore() throws {
    guard outcomes.awayDuration == nil else { throw Problem.unavailable("The store cannot be written at present.") }
  }

  func makeBatch(of app: PushApp, rejectedCount: Int = 0) -> (name: NotificationID, batch: StoredBatch) {
    let now = access.clock.now
    let run = IntakeRunID(milliseconds: UInt64(clamping: now.milliseconds), random: .random(in: 0 ... .max))
    let name = NotificationID(run: run, line: .random(in: 0 ... .max))
    return (
      name,
      StoredBatch(id: StoredUUID(name), app: app.id, parts: [], rejectedCount: rejectedCount, createdAt: now)
    )
  }

  func submit(
    _ notifications: [(PreparedNotification, DeviceToken)], _ references: [(index: Int, text: String)] = [],
    to app: PushApp, as batch: StoredBatch, queued: () -> Void
  ) async throws(CarillonError) {
    let references = Dictionary(uniqueKeysWithValues: references.map { ($0.index, $0.text) })
    let isShared = intake.isShared(app.id)
    _ = try await app.submit(
      notifications, isShared: isShared,
      assigned: { places, run, first in
        if isShared { outcomes.keep(run, from: first, app: app.id, places.joined().map { notifications[$0] }) }
        let run = StoredRunID(run)
        let count = UInt32(places.reduce(0) { $0 + $1.count })
        var part = batch
        part.parts = [StoredLines(run: run, lines: first...(first + count - 1))]
        outcomes.change { changes in
          changes.batches.append(part)
          guard !references.isEmpty else { return }
          for (line, place) in zip(first..., places.joined()) {
            guard let text = references[place] else { continue }
            changes.references.append((StoredNotificationID(run: run, line: line), text))
          }
        }
      }, queued: queued)
  }

  /// Waits until what belongs to notifications is in the store. Those in the journal are sent
  /// whatever is answered, so that the caller of a store that has just gone away waits for it.
  func demandChanges() async throws {
    do {
      try await access.clock.waiting { () throws(StoreError) in try await outcomes.makeChangesDurable() }
    } catch {
      var problem = Problem(describing: error)
      problem.isDoubtful = true
      throw problem
    }
  }

  /// The most devices in one read.
  private static let portion = 1_000

  /// Those that are there.
  private func devices(_ ids: [StoredUUID], _ app: PushApp) async throws -> [StoredUUID: StoredDevice] {
    var found: [StoredUUID: StoredDevice] = [:]
    for start in stride(from: 0, to: ids.count, by: Self.portion) {
      let part = Array(ids[start..<min(ids.count, start + Self.portion)])
      found.merge(try await store.devices(ids: part, app: app.id)) { first, _ in first }
    }
    return found
  }

  /// Users in one read: their devices have tags, too.
  private static let userPortion = 50

  /// As many as a batch may have: users behind those are missing.
  private func devices(
    ofUsers users: [String], _ app: PushApp
  ) async throws -> [String: [BatchRequest.UserDevice]] {
    var seen: Set<String> = []
    let users = users.filter { seen.insert($0).inserted }
    var found: [String: [BatchRequest.UserDevice]] = [:]
    var count = 0
    for start in stride(from: 0, to: users.count, by: Self.userPortion) where count <= BatchRequest.userDeviceLimit {
      let part = Array(users[start..<min(users.count, start + Self.userPortion)])
      let known = try await store.devices(ofUsers: part, app: app.id, limit: StoredDevice.userLimit)
      for user in part {
        found[user] = (known[user] ?? []).map { .init(token: $0.token, isSuppressed: $0.isSuppressed) }
        count += known[user]?.count ?? 0
      }
    }
    return found
  }

  /// Memory that a notification takes besides its text, which all of an entry's share.
  static let entryByteCount = 64

  /// Records notifications to suppressed devices with their outcome: nothing is sent.
  ///
  /// - Returns: what each is called, in the same order.
  @discardableResult private func suppress(
    _ notifications: [(token: [UInt8], reference: String?)], _ app: PushApp, in batch: StoredBatch? = nil
  ) -> [NotificationID] {
    let now = access.clock.now
    let run = IntakeRunID(milliseconds: UInt64(clamping: now.milliseconds), random: .random(in: 0 ... .max))
    let ids = notifications.indices.map { NotificationID(run: run, line: UInt32($0 + 1)) }
    let stored = StoredRunID(run)
    outcomes.change { changes in
      if var batch {
        if let last = ids.last { batch.parts = [StoredLines(run: stored, lines: 1...last.line)] }
        changes.batches.append(batch)
      }
      guard !ids.isEmpty else { return }
      changes.began.append((run: stored, app: app.id, at: now))
      for (id, notification) in zip(ids, notifications) {
        let name = StoredNotificationID(id)
        changes.notAccepted.append((notification: name, state: Outcome.Kind.suppressed.rawValue, detail: ""))
        if let reference = notification.reference { changes.references.append((name, reference)) }
        let entry = OutcomeEntries(
          line: UInt64(id.line), token: Digest.hexadecimal(notification.token), goneSince: nil, isDoubted: false)
        changes.outcomes.append(
          OutcomeGroup(.suppressed, entry, app: app.id, of: .run(stored, isBridge: false), at: now))
      }
      changes.ended.append((stored, now))
    }
    return ids
  }

  private func getNotification(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .read)
    guard let id = context.parameters.get("id").flatMap({ NotificationID($0) }) else {
      throw context.missing("notification", of: app)
    }
    let stored = StoredNotificationID(id)
    // Memory first: an outcome is in the store before it leaves memory.
    let pending = outcomes.app(of: stored)
    let known = try await store.notification(stored)
    let outcome = known.outcome
    guard let owner = outcome?.app ?? pending ?? known.sharedApp, owner == app.id else {
      throw context.missing("notification", of: app)
    }
    return .json { json in
      json.field("id", "\(id)")
      json.field("state", outcome == nil ? "queued" : "finished")
      json.field("outcome", outcome?.state)
      json.field("reason", outcome.flatMap { $0.detail.isEmpty ? nil : $0.detail })
      json.field("possibleDuplicate", known.isDoubted)
      json.field("reference", known.reference)
    }
  }

  private func getBatch(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .read)
    guard let id = context.parameters.get("id").flatMap({ NotificationID($0) }),
      let batch = try await store.batch(StoredUUID(id)), batch.app == app.id
    else { throw context.missing("batch", of: app) }
    let counts = try await store.outcomes(of: batch.parts)
    return .json { json in
      json.field("id", "\(id)")
      json.field("state", counts.total == batch.acceptedCount ? "finished" : "queued")
      json.field("rejectedLines", batch.rejectedCount)
      json.object("account") { write(counts, submitted: batch.acceptedCount, of: app, to: &$0) }
    }
  }

  /// As `carillon send --json` has an account, without `resent`: what certainly had not arrived and
  /// was sent again is counted by app.
  private func write(_ counts: OutcomeCounts, submitted: Int, of app: PushApp, to json: inout JSONWriter) {
    json.field("submitted", submitted)
    json.object("accepted") {
      $0.field("confirmed", counts.accepted["confirmed"] ?? 0)
      $0.field("quiet", counts.accepted["quiet"] ?? 0)
    }
    let rejected = counts.others[Outcome.Kind.rejected.rawValue] ?? [:]
    json.object("rejected") {
      $0.field("total", rejected.values.reduce(0, +))
      $0.object("byReason") {
        for (reason, count) in rejected.sorted(by: { $0.key < $1.key }) { $0.field(reason, count) }
      }
    }
    for kind in Outcome.Kind.plain { json.field(kind.rawValue, counts.others[kind.rawValue]?.values.reduce(0, +) ?? 0) }
    json.field("inFlight", submitted - counts.total)
    json.field("possibleDuplicates", counts.doubted)
    json.field("possibleCopies", counts.copies)
    let status = app.status
    let isOver = counts.total == submitted
    json.field("notes", isOver ? [] : [status.reason].compactMap { $0 }.map { "\(status.state.rawValue): \($0)" })
    // A batch is read to its end, or nothing of it is sent.
    json.field("neverRead", [String]())
  }
}

extension StoredNotificationID {
  init(_ id: NotificationID) { self.init(run: StoredRunID(id.run), line: id.line) }
}
