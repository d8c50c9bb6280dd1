internal import Carillon
internal import PushService
internal import PushStore
internal import PushWire

/// What a request, or a line of an import, says of a device.
struct DeviceRequest {
  private static let fields = ["language", "timeZone", "tags", "userId", "replacesToken"]
  /// Those of a line, which also names the device.
  static let lineFields = fields + ["token", "registeredAt"]

  private let fields: FieldReader

  /// - Parameters:
  ///   - body: a JSON object; an empty body is one without fields.
  ///   - token: from the address.
  /// - Throws: ``Problem`` naming the field that is wrong.
  static func registration(
    _ body: ArraySlice<UInt8>, token: DeviceToken, now: StoreInstant
  ) throws -> DeviceRegistration {
    try DeviceRequest(fields: FieldReader(body.isEmpty ? [] : JSONBody.members(body), fields: fields))
      .registration(token: token, id: .make(at: now), now: now)
  }

  /// The device has no id yet, see ``DeviceBlock/prepare(now:)``.
  ///
  /// - Throws: ``Problem`` naming the field that is wrong.
  static func registration(line: ArraySlice<UInt8>, now: StoreInstant) throws -> DeviceRegistration {
    try registration(line: JSONBody.members(line, isLine: true), now: now)
  }

  static func registration(line: [JSONMember], now: StoreInstant) throws -> DeviceRegistration {
    try DeviceRequest(fields: FieldReader(line, fields: lineFields))
      .registration(token: nil, id: DeviceBlock.noID, now: now)
  }

  private func registration(token: DeviceToken?, id: StoredUUID, now: StoreInstant) throws -> DeviceRegistration {
    guard let token = try token ?? self.token("token") else {
      throw fields.wrong("token", "The device's token is missing.")
    }
    var registration = DeviceRegistration(
      token: token.bytes, replacedToken: try self.token("replacesToken")?.bytes, newID: id, registeredAt: now)
    registration.language = try change(
      "language", else: "The language must be a tag as BCP 47 has it, such as de or en-GB.", LanguageTag.normalised)
    registration.timeZone = try change(
      "timeZone", else: "The time zone must be a name of the IANA database, such as Europe/Berlin."
    ) { TimeZoneName.isValid($0) ? $0 : nil }
    registration.userID = try change("userId", else: UserName.rule) { UserName.isValid($0) ? $0 : nil }
    if fields.contains("tags") { registration.tags = .set(try tags()) }
    if let text = try fields.text("registeredAt") {
      guard let instant = InstantText.instant(text) else {
        throw fields.wrong("registeredAt", "It must be an instant with its offset, such as 2026-01-31T12:00:00Z.")
      }
      guard instant <= now else { throw fields.wrong("registeredAt", "It must not be in the future.") }
      registration.registeredAt = instant
    }
    return registration
  }

  private func change(
    _ name: String, else problem: String, _ read: (String) -> String?
  ) throws -> DeviceRegistration.Change<String?> {
    guard fields.contains(name) else { return .keep }
    guard let text = try fields.text(name) else { return .set(nil) }
    guard let known = read(text) else { throw fields.wrong(name, problem) }
    return .set(known)
  }

  private func tags() throws -> Set<String> {
    // Checked before the elements are.
    if case .array(let elements)? = fields["tags"], elements.count > 4 * DeviceTag.countLimit {
      throw fields.wrong("tags", "A device has at most \(DeviceTag.countLimit) tags.")
    }
    let texts = try fields.texts("tags") ?? []
    do { return try DeviceTag.normalised(texts) } catch let problem as Problem {
      throw fields.wrong("tags", problem.detail)
    }
  }

  private func token(_ name: String) throws -> DeviceToken? {
    try fields.text(name).map { try DeviceToken(registered: $0, pointer: fields.place(name)) }
  }
}
