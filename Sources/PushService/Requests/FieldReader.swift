package import Carillon
package import PushWire

/// Reads the members of a JSON object of a request, and says which one is wrong.
package struct FieldReader {
  private let members: [JSONMember]
  /// The object's JSON Pointer (RFC 6901).
  private let pointer: String

  /// - Parameters:
  ///   - fields: those that there are. So few that going through them costs less than a dictionary.
  ///   - isLine: the bytes are one line of a body, whose number the caller adds.
  /// - Throws: ``Problem`` with 400 if it is no object, or has a member that is unknown or stands
  ///   twice.
  package init(parsing bytes: ArraySlice<UInt8>, fields: [String], isLine: Bool = false) throws {
    try self.init(JSONBody.members(bytes, isLine: isLine), fields: fields)
  }

  package init(_ value: JSONValue, fields: [String], at pointer: String) throws {
    guard case .object(let members) = value else { throw Problem.malformed("It must be an object.", pointer: pointer) }
    try self.init(members, fields: fields, at: pointer)
  }

  package init(_ members: [JSONMember], fields: [String], at pointer: String = "") throws {
    (self.members, self.pointer) = (members, pointer)
    for (index, member) in members.enumerated() {
      guard fields.contains(member.key) else { throw wrong(member.key, "There is no field \"\(member.key)\".") }
      guard !members[..<index].contains(where: { $0.key == member.key }) else {
        throw wrong(member.key, "The field stands twice.")
      }
    }
  }

  /// Whether it is there, with null also.
  package func contains(_ name: String) -> Bool { members.contains { $0.key == name } }

  /// Nil also for null.
  package subscript(name: String) -> JSONValue? {
    guard let value = members.first(where: { $0.key == name })?.value, value != .null else { return nil }
    return value
  }

  package func text(_ name: String) throws -> String? {
    switch self[name] {
    case nil: return nil
    case .string(let text)?: return text
    default: throw wrong(name, "It must be a string.")
    }
  }

  package func flag(_ name: String) throws -> Bool? {
    switch self[name] {
    case nil: return nil
    case .bool(let value)?: return value
    default: throw wrong(name, "It must be true or false.")
    }
  }

  package func integer(_ name: String) throws -> Int? {
    switch self[name] {
    case nil: return nil
    case .number(let text)?:
      if let number = Int(text) { return number }
      fallthrough
    default: throw wrong(name, "It must be a whole number.")
    }
  }

  package func integer(_ name: String, in range: ClosedRange<Int>) throws -> Int? {
    guard let number = try integer(name) else { return nil }
    guard range.contains(number) else {
      throw wrong(name, "It must be a whole number from \(range.lowerBound) to \(range.upperBound).")
    }
    return number
  }

  package func texts(_ name: String, limit: Int = .max) throws -> [String]? {
    guard let value = self[name] else { return nil }
    guard case .array(let elements) = value, elements.count <= limit else {
      throw wrong(name, "It must be an array of \(limit == .max ? "" : "at most \(limit) ")strings.")
    }
    return try elements.enumerated().map { index, element in
      guard case .string(let text) = element else {
        throw Problem.malformed("It must be a string.", pointer: "\(place(name))/\(index)")
      }
      return text
    }
  }

  /// `user` or `device`, which is the default.
  package func isOncePerUser(_ name: String) throws -> Bool {
    switch try text(name) {
    case nil, "device"?: false
    case "user"?: true
    default: throw wrong(name, "It must be \"device\" or \"user\".")
    }
  }

  package func object(_ name: String, fields: [String]) throws -> FieldReader? {
    try self[name].map { try FieldReader($0, fields: fields, at: place(name)) }
  }

  package func wrong(_ name: String, _ detail: String) -> Problem { .malformed(detail, pointer: place(name)) }

  package func place(_ name: String) -> String {
    "\(pointer)/\(name.replacing("~", with: "~0").replacing("/", with: "~1"))"
  }
}

extension FieldReader {
  /// The fields of ``notification()``.
  package static let notificationFields = ["payload", "pushType", "priority", "collapseId"]

  /// What is the same for a notification and for a campaign.
  package func notification() throws -> PushNotification {
    guard let payload = self["payload"] else { throw wrong("payload", "The payload is missing.") }
    guard case .object = payload else { throw wrong("payload", "The payload must be an object.") }
    var notification = PushNotification(json: payload.encoded)
    if let name = try text("pushType") {
      guard let type = PushNotification.PushType(name: name) else {
        let names = PushType.allCases.map(\.rawValue).joined(separator: ", ")
        throw wrong("pushType", "There is no push type \"\(name)\": it is one of \(names).")
      }
      notification.pushType = type
    }
    if let number = try integer("priority") {
      guard let priority = UInt8(exactly: number).flatMap(PushNotification.Priority.init(rawValue:)) else {
        throw wrong("priority", "The priority must be 1, 5 or 10.")
      }
      notification.priority = priority
    }
    notification.collapseID = try text("collapseId")
    return notification
  }
}

package enum JSONBody {
  /// - Parameter isLine: the bytes are one line of a body, whose number the caller adds.
  /// - Throws: ``Problem`` saying where it is no JSON, or that it is no object.
  package static func members(_ bytes: ArraySlice<UInt8>, isLine: Bool = false) throws -> [JSONMember] {
    let what = isLine ? "line" : "body"
    let value: JSONValue
    do throws(JSONError) { value = try JSONValue(parsing: bytes) } catch {
      throw Problem.malformed("The \(what) is not JSON: \(error.description(in: bytes, isLine: isLine)).")
    }
    guard case .object(let members) = value else { throw Problem.malformed("The \(what) must be a JSON object.") }
    return members
  }
}
