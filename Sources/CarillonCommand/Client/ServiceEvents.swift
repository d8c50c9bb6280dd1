struct ServiceEvent: Hashable, Sendable {
  var name = "message"
  var id: String?
  var data = ""
}

/// Finds the events in the bytes of an event stream (HTML, section 9.2.6).
struct ServiceEventParser {
  private var line: [UInt8] = []
  private var event = ServiceEvent()
  private var dataLines: [String] = []
  private var isAfterReturn = false

  /// Of a line. An event of the service has a few hundred bytes.
  private static let lineLimit = 1 << 20

  /// - Returns: the events that these bytes complete; nil if a line is longer than any event's.
  mutating func events(in bytes: [UInt8]) -> [ServiceEvent]? {
    var events: [ServiceEvent] = []
    for byte in bytes {
      let wasReturn = isAfterReturn
      isAfterReturn = byte == UInt8(ascii: "\r")
      switch byte {
      case UInt8(ascii: "\n") where wasReturn: continue
      case UInt8(ascii: "\n"), UInt8(ascii: "\r"):
        if let event = endLine() { events.append(event) }
      default:
        guard line.count < Self.lineLimit else { return nil }
        line.append(byte)
      }
    }
    return events
  }

  private mutating func endLine() -> ServiceEvent? {
    defer { line.removeAll(keepingCapacity: true) }
    guard !line.isEmpty else {
      defer { (event, dataLines) = (ServiceEvent(), []) }
      guard !dataLines.isEmpty else { return nil }
      event.data = dataLines.joined(separator: "\n")
      return event
    }
    let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
    var value = line[min(colon + 1, line.endIndex)...]
    if value.first == UInt8(ascii: " ") { value.removeFirst() }
    let text = String(decoding: value, as: UTF8.self)
    switch String(decoding: line[..<colon], as: UTF8.self) {
    case "event": event.name = text
    case "data": dataLines.append(text)
    case "id": event.id = text
    default: break
    }
    return nil
  }
}
