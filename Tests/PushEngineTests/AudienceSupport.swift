internal import PushEngine
internal import PushTransport
internal import PushWire

/// An entry, for comparisons.
struct Row: Equatable, CustomStringConvertible {
  var line: UInt64
  var kind: AudienceEntry.Kind
  /// The token in hexadecimal digits, or the text in its place.
  var text: String
  var payload = ""
  var identifier: String?
  var collapse = ""
  var description: String { "(\(line) \(kind) \(text) \(payload) \(identifier ?? "") \(collapse))" }
}

enum Audience {
  static let token = String(repeating: "0123456789abcdef", count: 4)
  static let other = String(repeating: "fedcba9876543210", count: 4)

  /// Reads a complete file in blocks of the sizes from `cut`, into chunks of `entryLimit`.
  static func rows(
    _ file: String, template: String? = nil, byteLimit: Int = 2048, readsHeaders: Bool = false, entryLimit: Int = 1024,
    cut: () -> Int = { Int.max }
  ) throws -> [Row] {
    try rows(
      Array(file.utf8), template: template, byteLimit: byteLimit, readsHeaders: readsHeaders, entryLimit: entryLimit,
      cut: cut)
  }

  static func rows(
    _ bytes: [UInt8], template: String? = nil, byteLimit: Int = 2048, readsHeaders: Bool = false,
    entryLimit: Int = 1024, cut: () -> Int = { Int.max }
  ) throws -> [Row] {
    guard let header = try AudienceHeader.detect(bytes, isWhole: true) else { return [] }
    let renderer = try template.map {
      try PayloadTemplate(parsing: Array($0.utf8)).renderer(for: header, byteLimit: byteLimit)
    }
    var reader = AudienceReader(header, renderer: renderer, readsHeaders: readsHeaders)
    let chunk = AudienceChunk(entryLimit: entryLimit, payloadCapacity: renderer == nil ? 0 : byteLimit * 3)
    var rows: [Row] = []
    func empty() {
      for index in 0..<chunk.count {
        let entry = chunk[index]
        rows.append(
          Row(
            line: entry.line, kind: entry.kind, text: chunk.text(of: entry),
            payload: unsafe String(decoding: chunk.payload(of: entry), as: UTF8.self),
            identifier: chunk.ownHeaders(of: entry).identifier?.description,
            collapse: unsafe String(decoding: chunk.ownHeaders(of: entry).collapseIdentifier, as: UTF8.self)))
      }
      chunk.removeAll()
    }
    var position = header.byteCount
    while position < bytes.count {
      // An array of its own, so that a sanitizer reports a read beyond the block.
      let block = Array(bytes[position...].prefix(max(1, cut())))
      var offset = 0
      while offset < block.count {
        let used = unsafe block.withUnsafeBytes {
          unsafe reader.read(UnsafeRawBufferPointer(rebasing: $0[offset...]), into: chunk)
        }
        offset += used
        if offset < block.count { empty() }
      }
      position += block.count
    }
    while !reader.finish(into: chunk) { empty() }
    empty()
    return rows
  }
}
