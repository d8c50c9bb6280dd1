package import PushWire

/// Reads the members of a JSON object of a request, and says which one is wrong.
package struct FieldReader {
  private var values: [String: JSONValue] = [:]
  /// The object's JSON Pointer (RFC 6901).
  private let pointer: String

  /// - Throws: ``Problem`` with 400 if it is no object, or has a member twice.
  package init(_ value: JSONValue, at pointer: String = "") throws {
    self.pointer = pointer
    guard case .object(let members) = value else {
      throw Problem.malformed(
        pointer.isEmpty ? "The body must be a JSON object." : "It must be an object.", pointer: pointer)
    }
    for member in members where values.updateValue(member.value, forKey: member.key) != nil {
      throw wrong(member.key, "The field stands twice.")
    }
  }

  /// Nil also for null.
  package mutating func take(_ name: String) -> JSONValue? {
    guard let value = values.removeValue(forKey: name), value != .null else { return nil }
    return value
  }

  package mutating func text(_ name: String) throws -> String? {
    switch take(name) {
    case nil: return nil
    case .string(let text)?: return text
    default: throw wrong(name, "It must be a string.")
    }
  }

  package mutating func flag(_ name: String) throws -> Bool? {
    switch take(name) {
    case nil: return nil
    case .bool(let value)?: return value
    default: throw wrong(name, "It must be true or false.")
    }
  }

  package mutating func integer(_ name: String, in range: ClosedRange<Int>) throws -> Int? {
    guard let value = take(name) else { return nil }
    guard case .number(let text) = value, let number = Int(text), range.contains(number) else {
      throw wrong(name, "It must be a whole number from \(range.lowerBound) to \(range.upperBound).")
    }
    return number
  }

  package mutating func texts(_ name: String, limit: Int) throws -> [String]? {
    guard let value = take(name) else { return nil }
    guard case .array(let elements) = value, elements.count <= limit else {
      throw wrong(name, "It must be an array of at most \(limit) strings.")
    }
    return try elements.map {
      guard case .string(let text) = $0 else { throw wrong(name, "It must be an array of strings.") }
      return text
    }
  }

  package mutating func object(_ name: String) throws -> FieldReader? {
    try take(name).map { try FieldReader($0, at: place(name)) }
  }

  /// - Throws: ``Problem`` if there are unknown members.
  package func finish() throws {
    guard let name = values.keys.min() else { return }
    throw wrong(name, "There is no field \"\(name)\".")
  }

  package func wrong(_ name: String, _ detail: String) -> Problem { .malformed(detail, pointer: place(name)) }

  package func place(_ name: String) -> String {
    "\(pointer)/\(name.replacing("~", with: "~0").replacing("/", with: "~1"))"
  }
}

package enum JSONBody {
  /// - Parameter isLine: the bytes are one line of a body, whose number the caller adds.
  /// - Throws: ``Problem`` saying where it is no JSON.
  package static func value(_ bytes: ArraySlice<UInt8>, isLine: Bool = false) throws -> JSONValue {
    do throws(JSONError) { return try JSONValue(parsing: bytes) } catch {
      let what = isLine ? "line" : "body"
      throw Problem.malformed("The \(what) is not JSON: \(error.description(in: bytes, isLine: isLine)).")
    }
  }
}
