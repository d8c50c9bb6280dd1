internal import PushWire

/// A template for one token file. It writes the payload of a line directly into a chunk's memory.
package struct PayloadRenderer: Sendable {
  enum Piece: Sendable {
    case text(start: Int, count: Int)
    /// The index of a column.
    case column(Int)
  }

  enum Result: Hashable {
    case rendered(byteCount: Int)
    case tooLarge, notUTF8
  }

  /// The renderer for a language, in lower case, and for all that begin with it.
  private struct Variant: Sendable {
    let language: [UInt8]
    let renderer: PayloadRenderer
  }

  let source: [UInt8]
  let pieces: [Piece]
  package let byteLimit: Int
  /// The longest languages first.
  private var variants: [Variant] = []
  private var languageColumn: Int?

  init(source: [UInt8], pieces: [Piece], byteLimit: Int) {
    (self.source, self.pieces, self.byteLimit) = (source, pieces, byteLimit)
  }

  /// The same with other payloads for rows whose column `language` says so. Without such a column
  /// all get the same.
  ///
  /// - Parameter renderers: by language.
  package func with(variants renderers: [String: PayloadRenderer], in header: AudienceHeader) -> PayloadRenderer {
    var copy = self
    copy.languageColumn = header.columns.firstIndex { $0.lowercased() == "language" }
    copy.variants = renderers.map { Variant(language: Array($0.key.lowercased().utf8), renderer: $0.value) }
    copy.variants.sort { $0.language.count > $1.language.count }
    return copy
  }

  /// Writes the payload for `record`, whose fields lie in `text`, to the beginning of
  /// `destination`. Allocates nothing.
  func render(
    _ record: borrowing AudienceRecord, of text: UnsafeRawBufferPointer, into destination: UnsafeMutableRawBufferPointer
  ) -> Result {
    if let languageColumn {
      let field = record[languageColumn]
      let language = unsafe UnsafeRawBufferPointer(rebasing: text[field.start..<field.end])
      for variant in variants where unsafe Self.begins(language, with: variant.language) {
        return unsafe variant.renderer.render(record, of: text, into: destination)
      }
    }
    let limit = min(byteLimit, destination.count)
    var end = 0
    for piece in pieces {
      switch piece {
      case .text(let start, let count):
        guard count <= limit - end else { return .tooLarge }
        unsafe source.withUnsafeBytes { source in
          let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: destination[end...])
          unsafe rest.copyMemory(from: UnsafeRawBufferPointer(rebasing: source[start..<start + count]))
        }
        end += count
      case .column(let index):
        let field = record[index]
        let value = unsafe UnsafeRawBufferPointer(rebasing: text[field.start..<field.end])
        guard unsafe UTF8Check.isValid(value) else { return .notUTF8 }
        guard let next = unsafe Self.escape(value, isQuoted: field.isQuoted, into: destination, from: end, limit: limit)
        else { return .tooLarge }
        end = next
      }
    }
    return .rendered(byteCount: end)
  }

  /// Whether a language is this one, or this one with a region or a script.
  private static func begins(_ language: UnsafeRawBufferPointer, with tag: [UInt8]) -> Bool {
    guard language.count >= tag.count else { return false }
    for (index, expected) in tag.enumerated() {
      var byte = unsafe language[index]
      if (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) { byte += 32 }
      if byte == UInt8(ascii: "_") { byte = UInt8(ascii: "-") }
      guard byte == expected else { return false }
    }
    guard language.count > tag.count else { return true }
    let next = unsafe language[tag.count]
    return next == UInt8(ascii: "-") || next == UInt8(ascii: "_")
  }

  /// Writes a value as the inside of a JSON string. Returns the offset after it, or nil if it
  /// exceeds the limit.
  private static func escape(
    _ value: UnsafeRawBufferPointer, isQuoted: Bool, into destination: UnsafeMutableRawBufferPointer, from start: Int,
    limit: Int
  ) -> Int? {
    var end = start
    var position = 0
    while position < value.count {
      let byte = unsafe value[position]
      position += 1
      if byte >= 0x20, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") {
        guard end < limit else { return nil }
        unsafe destination[end] = byte
        end += 1
        continue
      }
      // Within a quoted CSV field every quote is doubled.
      if byte == UInt8(ascii: "\""), isQuoted { position += 1 }
      let short: UInt8? =
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): byte
        case 0x08: UInt8(ascii: "b")
        case 0x09: UInt8(ascii: "t")
        case 0x0A: UInt8(ascii: "n")
        case 0x0C: UInt8(ascii: "f")
        case 0x0D: UInt8(ascii: "r")
        default: nil
        }
      guard limit - end >= (short == nil ? 6 : 2) else { return nil }
      unsafe destination[end] = UInt8(ascii: "\\")
      if let short {
        unsafe destination[end + 1] = short
        end += 2
      } else {
        unsafe destination[end + 1] = UInt8(ascii: "u")
        unsafe destination[end + 2] = UInt8(ascii: "0")
        unsafe destination[end + 3] = UInt8(ascii: "0")
        unsafe destination[end + 4] = hexadecimalDigit(byte >> 4)
        unsafe destination[end + 5] = hexadecimalDigit(byte & 15)
        end += 6
      }
    }
    return end
  }

  private static func hexadecimalDigit(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
  }
}
