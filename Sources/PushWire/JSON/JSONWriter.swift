/// Writes JSON with its keys in the order given, on one line.
package struct JSONWriter {
  package private(set) var text = ""
  private var needsComma = false

  package init() {}

  /// One object.
  package static func text(_ body: (inout JSONWriter) -> Void) -> String {
    var json = JSONWriter()
    json.object(body)
    return json.text
  }

  package mutating func object(_ body: (inout JSONWriter) -> Void) {
    text += "{"
    needsComma = false
    body(&self)
    text += "}"
    needsComma = true
  }

  package mutating func object(_ key: String, _ body: (inout JSONWriter) -> Void) {
    self.key(key)
    object(body)
  }

  package mutating func field(_ key: String, _ value: String) { write(key, JSONText.quoted(value)) }
  package mutating func field(_ key: String, _ value: Bool) { write(key, value ? "true" : "false") }
  package mutating func field(_ key: String, _ value: some BinaryInteger) { write(key, String(value)) }
  /// Nothing for nil.
  package mutating func field(_ key: String, _ value: String?) { if let value { write(key, JSONText.quoted(value)) } }
  package mutating func field(_ key: String, _ values: [String]) {
    write(key, "[" + values.map(JSONText.quoted).joined(separator: ",") + "]")
  }

  /// With three decimals. JSON has no infinity, so a number that is none is 0.
  package mutating func field(_ key: String, _ value: Double) {
    let thousandths = (value * 1000).rounded()
    guard thousandths.isFinite, abs(thousandths) < 9e18 else { return write(key, "0") }
    let whole = Int64(thousandths)
    let fraction = String(whole.magnitude % 1000)
    let digits = String(repeating: "0", count: 3 - fraction.count) + fraction
    write(key, "\(whole < 0 ? "-" : "")\(whole.magnitude / 1000).\(digits)")
  }

  package mutating func array<Element>(
    _ key: String, _ elements: [Element], _ body: (Element, inout JSONWriter) -> Void
  ) {
    self.key(key)
    text += "["
    needsComma = false
    for element in elements {
      if needsComma { text += "," }
      object { body(element, &$0) }
    }
    text += "]"
    needsComma = true
  }

  private mutating func write(_ key: String, _ value: String) {
    self.key(key)
    text += value
  }

  private mutating func key(_ key: String) {
    if needsComma { text += "," }
    text += JSONText.quoted(key) + ":"
    needsComma = true
  }
}
