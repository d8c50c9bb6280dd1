internal import Carillon
internal import Foundation
internal import PushWire

/// The record of `carillon simulate --record`: what arrived at a gateway, one JSON object per line.
struct GatewayRecord: Sendable {
  /// What happened to the notifications of one token, or to one broadcast.
  struct Fate: Sendable {
    /// Lines that say it was accepted.
    var acceptedCount = 0
    /// How the last refusal is written: a status of the binary protocol as a number, an answer of
    /// HTTP/2 as status and reason. Nil: it was never refused.
    var refusal: String?
  }

  /// A device, or a channel of broadcasts.
  enum Key: Hashable, Sendable {
    case device(TokenBytes)
    case channel(String)
  }

  struct App: Sendable {
    var fates: [Key: Fate] = [:]
    /// Lines with neither token nor channel.
    var namelessCount = 0
    /// The identifiers that were accepted; empty for the binary protocol.
    var identifiers: Set<APNSIdentifier> = []
    var isHTTP2 = false
    var lineCount = 0
  }

  /// By the topic of the app's certificate or, over HTTP/2, its bundle identifier.
  var apps: [String: App] = [:]
  private(set) var lineCount = 0

  private static let blockByteCount = 1 << 20

  init(file: String) throws(CarillonError) {
    do {
      let handle = try FileHandle(forReadingFrom: URL(filePath: file))
      defer { try? handle.close() }
      var waiting: [UInt8] = []
      while let block = try handle.read(upToCount: Self.blockByteCount), !block.isEmpty {
        waiting += block
        try takeLines(&waiting, file: file)
      }
      // A record that is complete ends with a line end.
      if !waiting.isEmpty { throw Self.problem(file, lineCount + 1) }
    } catch let error as CarillonError {
      throw error
    } catch {
      throw CarillonError(.configuration, "\(file) cannot be read: \(error.localizedDescription)")
    }
  }

  /// Takes every whole line out of `waiting`.
  private mutating func takeLines(_ waiting: inout [UInt8], file: String) throws(CarillonError) {
    var start = 0
    while let end = waiting[start...].firstIndex(of: UInt8(ascii: "\n")) {
      guard let line = RecordLine(parsing: waiting[start..<end]) else { throw Self.problem(file, lineCount + 1) }
      add(line)
      lineCount += 1
      start = end + 1
    }
    waiting.removeSubrange(..<start)
  }

  private static func problem(_ file: String, _ line: Int) -> CarillonError {
    CarillonError(.configuration, "\(file):\(line) is no line of a simulator's record, or the record is cut off")
  }

  private mutating func add(_ line: RecordLine) { apps[line.app, default: App()].add(line) }
}

extension GatewayRecord.App {
  mutating func add(_ line: RecordLine) {
    lineCount += 1
    isHTTP2 = isHTTP2 || line.isHTTP2
    let key: GatewayRecord.Key
    if let channel = line.channel {
      key = .channel(channel)
    } else if let token = line.token {
      key = .device(token)
    } else {
      namelessCount += 1
      return
    }
    if let refusal = line.refusal {
      fates[key, default: GatewayRecord.Fate()].refusal = refusal
    } else {
      fates[key, default: GatewayRecord.Fate()].acceptedCount += 1
      if let identifier = line.identifier { identifiers.insert(identifier) }
    }
  }
}

/// One line of a record, as far as it is compared.
struct RecordLine {
  var app = ""
  var token: TokenBytes?
  var channel: String?
  var identifier: APNSIdentifier?
  var refusal: String?
  var isHTTP2 = false

  /// Nil for anything but an object with an app whose values are plain.
  init?(parsing text: ArraySlice<UInt8>) {
    var scanner = Scanner(text)
    guard scanner.take("{") else { return nil }
    repeat {
      guard let key = scanner.string(), scanner.take(":"), let value = scanner.value() else { return nil }
      switch key {
      case "app": app = value.text
      case "token": if value.isString { token = try? TokenBytes(parsing: value.text) }
      case "channel": if value.isString { channel = value.text }
      case "id": if value.isString { identifier = APNSIdentifier(parsing: value.text) }
      case "refused": refusal = value.text
      case "stream": isHTTP2 = true
      default: break
      }
    } while scanner.take(",")
    guard scanner.take("}"), scanner.isAtEnd, !app.isEmpty else { return nil }
  }

  /// Reads the JSON that the simulator writes: one level, no spaces.
  private struct Scanner {
    private let text: ArraySlice<UInt8>
    private var place: Int

    init(_ text: ArraySlice<UInt8>) {
      self.text = text
      place = text.startIndex
    }

    var isAtEnd: Bool { place == text.endIndex }

    mutating func take(_ character: Unicode.Scalar) -> Bool {
      guard place < text.endIndex, text[place] == UInt8(ascii: character) else { return false }
      place += 1
      return true
    }

    mutating func string() -> String? {
      guard take("\"") else { return nil }
      let start = place
      var isEscaped = false
      while place < text.endIndex, text[place] != UInt8(ascii: "\"") {
        if text[place] == UInt8(ascii: "\\") {
          isEscaped = true
          place += 1
        }
        place += 1
      }
      guard place < text.endIndex else { return nil }
      defer { place += 1 }
      guard isEscaped else { return String(decoding: text[start..<place], as: UTF8.self) }
      return try? JSONDecoder().decode(String.self, from: Data(text[(start - 1)...place]))
    }

    mutating func value() -> (text: String, isString: Bool)? {
      if place < text.endIndex, text[place] == UInt8(ascii: "\"") { return string().map { ($0, true) } }
      let start = place
      while place < text.endIndex, !",}".utf8.contains(text[place]) { place += 1 }
      return place > start ? (String(decoding: text[start..<place], as: UTF8.self), false) : nil
    }
  }
}
