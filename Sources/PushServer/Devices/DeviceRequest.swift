internal import Carillon
internal import PushService
internal import PushStore
internal import PushWire

/// What a request, or a line of an import, says of a device.
struct DeviceRequest {
  static let fields: Set<String> = ["language", "timeZone", "tags", "replacesToken"]
  /// Those of a line, which also names the device.
  static let lineFields = fields.union(["token", "registeredAt"])

  /// - Parameters:
  ///   - body: a JSON object; an empty body is one without fields.
  ///   - token: from the address.
  /// - Throws: ``Problem`` naming the field that is wrong.
  static func registration(
    _ body: ArraySlice<UInt8>, token: DeviceToken, now: StoreInstant
  ) throws -> DeviceRegistration {
    try DeviceFields(body.isEmpty ? [] : try members(body, isLine: false), known: fields)
      .registration(token: token, id: .make(at: now), now: now)
  }

  /// The device has no id yet, see ``DeviceBlock/prepare(now:)``.
  ///
  /// - Throws: ``Problem`` naming the field that is wrong.
  static func registration(line: ArraySlice<UInt8>, now: StoreInstant) throws -> DeviceRegistration {
    try DeviceFields(try members(line, isLine: true), known: lineFields)
      .registration(token: nil, id: DeviceBlock.noID, now: now)
  }

  private static func members(_ body: ArraySlice<UInt8>, isLine: Bool) throws -> [JSONMember] {
    guard case .object(let members) = try JSONBody.value(body, isLine: isLine) else {
      throw Problem.malformed("It must be a JSON object.")
    }
    return members
  }
}

/// The fields of a device by name, however they were written.
struct DeviceFields {
  private var values: [String: JSONValue] = [:]

  init(_ members: [JSONMember], known: Set<String>) throws {
    for member in members {
      guard known.contains(member.key) else {
        throw Problem.malformed("There is no field \"\(member.key)\".", pointer: "/\(member.key)")
      }
      guard values.updateValue(member.value, forKey: member.key) == nil else {
        throw Problem.malformed("The field stands twice.", pointer: "/\(member.key)")
      }
    }
  }

  func registration(token: DeviceToken?, id: StoredUUID, now: StoreInstant) throws -> DeviceRegistration {
    guard let token = try token ?? self.token("token") else {
      throw Problem.malformed("The device's token is missing.", pointer: "/token")
    }
    var registration = DeviceRegistration(
      token: token.bytes, replacedToken: try self.token("replacesToken")?.bytes, newID: id, registeredAt: now)
    registration.language = try change(
      "language", else: "The language must be a tag as BCP 47 has it, such as de or en-GB.", LanguageTag.normalised)
    registration.timeZone = try change(
      "timeZone", else: "The time zone must be a name of the IANA database, such as Europe/Berlin."
    ) { TimeZoneName.isValid($0) ? $0 : nil }
    if let value = values["tags"] { registration.tags = .set(try tags(value)) }
    if let value = values["registeredAt"], let text = try text("registeredAt", value) {
      guard let instant = InstantText.instant(text) else {
        throw Problem.malformed(
          "It must be an instant with its offset, such as 2026-01-31T12:00:00Z.", pointer: "/registeredAt")
      }
      guard instant <= now else { throw Problem.malformed("It must not be in the future.", pointer: "/registeredAt") }
      registration.registeredAt = instant
    }
    return registration
  }

  private func change(
    _ name: String, else problem: String, _ read: (String) -> String?
  ) throws -> DeviceRegistration.Change<String?> {
    guard let value = values[name] else { return .keep }
    guard let text = try text(name, value) else { return .set(nil) }
    guard let known = read(text) else { throw Problem.malformed(problem, pointer: "/\(name)") }
    return .set(known)
  }

  private func tags(_ value: JSONValue) throws -> Set<String> {
    guard value != .null else { return [] }
    guard case .array(let elements) = value else {
      throw Problem.malformed("The tags must be an array of strings.", pointer: "/tags")
    }
    // Checked before the elements are.
    guard elements.count <= 4 * DeviceTag.countLimit else {
      throw Problem.malformed("A device has at most \(DeviceTag.countLimit) tags.", pointer: "/tags")
    }
    var texts: [String] = []
    for (index, element) in elements.enumerated() {
      guard case .string(let text) = element else {
        throw Problem.malformed("A tag must be a string.", pointer: "/tags/\(index)")
      }
      texts.append(text)
    }
    do { return try DeviceTag.normalised(texts) } catch let problem as Problem {
      throw Problem.malformed(problem.detail, pointer: "/tags")
    }
  }

  private func token(_ name: String) throws -> DeviceToken? {
    guard let value = values[name], let text = try text(name, value) else { return nil }
    return try DeviceToken(registered: text, pointer: "/\(name)")
  }

  private func text(_ name: String, _ value: JSONValue) throws -> String? {
    switch value {
    case .null: return nil
    case .string(let text): return text
    default: throw Problem.malformed("It must be a string.", pointer: "/\(name)")
    }
  }
}
