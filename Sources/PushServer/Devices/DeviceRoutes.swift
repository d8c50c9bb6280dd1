internal import Carillon
internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushTransport
internal import PushWire

struct DeviceRoutes: Sendable {
  let access: ControlAccess
  let store: any Store
  let census: DeviceCensus

  func add(to router: Router<ControlContext>) {
    let app = router.group("v1/apps/{app}")
    app.get("devices:count", use: getCounts)
    app.put("devices/{token}", use: putDevice)
    app.get("devices/{token}", use: getDevice)
    app.delete("devices/{token}", use: deleteDevice)
    app.get("devices", use: getDevices)
    app.post("devices:import") { request, context in
      try await withParsingPool { try await postImport(request, context) }
    }
  }

  private func putDevice(_ request: Request, _ context: ControlContext) async throws -> Response {
    try await put(request, context, user: nil)
  }

  /// - Parameter user: whose device it is, if the address says so.
  func put(_ request: Request, _ context: ControlContext, user: String?) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .devices)
    let token = try DeviceToken(registered: context.parameters.get("token") ?? "", pointer: nil)
    try request.bodyType([.json])
    let body = try await access.body(of: request, context, under: grant, limit: DeviceImport.lineLimit)
    var registration = try DeviceRequest.registration(body[...], token: token, now: access.clock.now)
    if let user {
      guard [.keep, .set(user)].contains(registration.userID) else {
        throw Problem.malformed("The address names another user.", pointer: "/userId")
      }
      registration.userID = .set(user)
    }
    let result = try await store.register(registration, app: app.id)
    guard let device = try await store.device(token: token.bytes, app: app.id) else {
      throw Problem(.conflict, "Removed", "The device was removed while it was registered.")
    }
    let isNew = if case .created = result { true } else { false }
    return .json(isNew ? .created : .ok) { Self.write(device, to: &$0) }
  }

  private func getDevice(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .devices, or: .read)
    guard let device = try await store.device(token: try token(context).bytes, app: app.id) else {
      throw context.missing("device", of: app, parameter: "token")
    }
    return .json { Self.write(device, to: &$0) }
  }

  private func deleteDevice(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .devices)
    guard try await store.removeDevice(token: try token(context).bytes, app: app.id) else {
      throw context.missing("device", of: app, parameter: "token")
    }
    return Response(status: .noContent)
  }

  private func getDevices(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .devices, or: .read)
    let parameters = request.uri.queryParameters
    let limit = try parameters.integer("limit", in: 1...1000) ?? 100
    let cursor = try parameters.integer("cursor", in: 0...Int.max) ?? 0
    let tag = try parameters["tag"].map { try DeviceTag.normalised(String($0)) }
    let devices = try await store.devices(
      app: app.id, tag: tag, after: Int64(cursor), limit: ListPage<StoredDevice>.readLimit(limit))
    let page = ListPage(devices, limit: limit, byteLimit: Self.pageByteLimit) { device in
      device.tags.reduce(2 * device.token.count + (device.userID?.utf8.count ?? 0)) { $0 + $1.utf8.count }
    }
    return .json { json in
      json.array("items", page.items) { Self.write($0, to: &$1) }
      json.field("nextCursor", page.last.map { String($0.key) })
    }
  }

  private func getCounts(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .devices, or: .read)
    let result = try await census.result(of: app.id)
    return .json { json in
      json.field("at", InstantText.text(result.at))
      json.field("active", result.counts.active)
      json.field("gone", result.counts.gone)
      json.field("withoutLanguage", result.withoutLanguage)
      json.array("languages", result.languages) { language, json in
        json.field("language", language.name)
        json.field("devices", language.count)
      }
      json.array("tags", result.tags) { tag, json in
        json.field("tag", tag.name)
        json.field("devices", tag.count)
      }
      json.array("days", result.days) { day, json in
        json.field("day", day.date)
        json.field("new", day.counts.new)
        json.field("gone", day.counts.gone)
      }
    }
  }

  /// Of the tokens and tags on a page.
  private static let pageByteLimit = 1 << 20

  private func postImport(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .devices)
    try request.bodyType([.lines, .csv])
    let (devices, error) = await takeImport(request.body, app.id, grant)
    if let error {
      var problem = Problem(describing: error)
      let count = devices.createdCount + devices.updatedCount
      if count > 0 {
        problem.detail += " \(count) of its devices are stored."
        problem.action = problem.action ?? "Import the file again: devices that are there already are updated."
      }
      throw problem
    }
    return .json { json in
      json.field("created", devices.createdCount)
      json.field("updated", devices.updatedCount)
      json.field("rejected", devices.rejectedCount)
      json.lines("errors", devices.errors)
    }
  }

  /// Reads the body at the pace of the store: while a block is stored, the next one is read.
  ///
  /// - Returns: what was done, and why it is not all.
  private func takeImport(
    _ body: RequestBody, _ app: String, _ grant: Grant
  ) async -> (devices: DeviceImport, error: (any Error)?) {
    let clock = access.clock
    return await withTaskGroup(of: StoredBlock.self) { writing in
      var devices = DeviceImport(now: clock.now, uptime: clock.uptime)
      do {
        for try await part in body {
          try await grant.demand()
          var rest = Array(part.readableBytesView)[...]
          while !rest.isEmpty {
            let slice = rest.prefix(Self.turnByteCount)
            let left = try await ParsingPool.shared.turn(of: grant.keyID) { try devices.take(slice) }
            rest = rest[(slice.endIndex - left.count)...]
            if devices.isBlockFull || devices.isBlockDue(now: clock.uptime) {
              try await store(&devices, app, grant.keyID, &writing)
            }
          }
        }
        try devices.finish()
        guard !devices.isEmpty else { throw Problem.malformed("The body has no device.") }
        try await grant.demand()
        try await store(&devices, app, grant.keyID, &writing)
        try await isStored(&devices, &writing)
        // They are stored whatever becomes of this.
        try? await store.noteImport()
        return (devices, nil)
      } catch {
        // What is being stored counts as well.
        if let block = await writing.next() { devices.stored(block.counts) }
        return (devices, error)
      }
    }
  }

  /// Bytes that are read in one turn: some milliseconds.
  private static let turnByteCount = 16 << 10

  private struct StoredBlock {
    var counts = DeviceImport.StoredCounts()
    var error: (any Error)?
  }

  private func store(
    _ devices: inout DeviceImport, _ app: String, _ key: String, _ writing: inout TaskGroup<StoredBlock>
  ) async throws {
    try await isStored(&devices, &writing)
    let block = devices.takeBlock(now: access.clock.uptime)
    writing.addTask { await store(block, app, key) }
  }

  private func isStored(_ devices: inout DeviceImport, _ writing: inout TaskGroup<StoredBlock>) async throws {
    guard let block = await writing.next() else { return }
    devices.stored(block.counts)
    if let error = block.error { throw error }
  }

  private func store(_ block: DeviceBlock, _ app: String, _ key: String) async -> StoredBlock {
    var block = block
    await ParsingPool.shared.turn(of: key) { block.prepare(now: access.clock.now) }
    let parts = block.parts(store.concurrentImportCount)
    return await withTaskGroup(of: StoredBlock.self) { group in
      for part in parts { group.addTask { await store(part, app) } }
      var stored = StoredBlock()
      for await part in group {
        stored.counts.add(part.counts)
        stored.error = stored.error ?? part.error
      }
      return stored
    }
  }

  /// In portions, between which others write.
  private func store(_ devices: ArraySlice<DeviceRegistration>, _ app: String) async -> StoredBlock {
    var (rest, stored) = (devices, StoredBlock())
    do throws(StoreError) {
      while !rest.isEmpty {
        stored.counts.add(try await store.importDevices(Array(rest.prefix(store.importPortion)), app: app))
        rest = rest.dropFirst(store.importPortion)
      }
    } catch {
      stored.error = error
    }
    return stored
  }

  func token(_ context: ControlContext) throws -> DeviceToken {
    do throws(CarillonError) { return try DeviceToken(hex: context.parameters.get("token") ?? "") } catch {
      throw Problem.malformed(error.message)
    }
  }

  static func write(_ device: StoredDevice, to json: inout JSONWriter) {
    json.field("id", device.id.text)
    json.field("token", Digest.hexadecimal(device.token))
    json.field("language", device.language)
    json.field("timeZone", device.timeZone)
    json.field("tags", device.tags)
    json.field("userId", device.userID)
    json.field("createdAt", InstantText.text(device.createdAt))
    json.field("registeredAt", InstantText.text(device.registeredAt))
    json.field("suppressed", device.isSuppressed)
    json.field("goneAt", device.goneAt.map(InstantText.text))
  }
}
