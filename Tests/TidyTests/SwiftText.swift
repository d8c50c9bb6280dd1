/// Separates Swift code from comments and string literals.
enum SwiftText {
  /// `text` with comments and string literals replaced by spaces, so code keeps its lines.
  ///
  /// Code inside an interpolation counts as part of its string.
  static func codeOnly(_ text: String) -> String {
    var scanner = Scanner(source: Array(text.utf8))
    scanner.run()
    return String(decoding: scanner.output, as: UTF8.self)
  }

  private struct Scanner {
    let source: [UInt8]
    var output: [UInt8] = []
    var position = 0

    init(source: [UInt8]) {
      self.source = source
      output.reserveCapacity(source.count)
    }

    mutating func run() {
      while position < source.count {
        if starts(with: "//") {
          blankLine()
        } else if starts(with: "/*") {
          blankComment()
        } else if let hashes = stringOpening() {
          blankString(hashes: hashes)
        } else {
          keep()
        }
      }
    }

    func starts(with prefix: StaticString, at offset: Int = 0) -> Bool {
      let start = position + offset
      guard start + prefix.utf8CodeUnitCount <= source.count else { return false }
      return source[start..<start + prefix.utf8CodeUnitCount].elementsEqual("\(prefix)".utf8)
    }

    mutating func keep() {
      output.append(source[position])
      position += 1
    }

    mutating func blank(_ count: Int = 1) {
      for _ in 0..<count where position < source.count {
        output.append(source[position] == UInt8(ascii: "\n") ? UInt8(ascii: "\n") : UInt8(ascii: " "))
        position += 1
      }
    }

    mutating func blankLine() {
      while position < source.count, source[position] != UInt8(ascii: "\n") { blank() }
    }

    mutating func blankComment() {
      var depth = 0
      repeat {
        if starts(with: "/*") {
          depth += 1
          blank(2)
        } else if starts(with: "*/") {
          depth -= 1
          blank(2)
        } else {
          blank()
        }
      } while depth > 0 && position < source.count
    }

    /// The number of `#` before the quotation mark, if a string starts here.
    func stringOpening() -> Int? {
      var hashes = 0
      while position + hashes < source.count, source[position + hashes] == UInt8(ascii: "#") { hashes += 1 }
      return position + hashes < source.count && source[position + hashes] == UInt8(ascii: "\"") ? hashes : nil
    }

    mutating func blankString(hashes: Int) {
      blank(hashes)
      let isMultiline = starts(with: "\"\"\"")
      blank(isMultiline ? 3 : 1)
      while position < source.count {
        if isEscape(hashes: hashes) {
          let isInterpolation =
            position + 1 + hashes < source.count && source[position + 1 + hashes] == UInt8(ascii: "(")
          blank(2 + hashes)
          if isInterpolation { blankInterpolation() }
        } else if closes(hashes: hashes, isMultiline: isMultiline) {
          blank((isMultiline ? 3 : 1) + hashes)
          return
        } else if !isMultiline, source[position] == UInt8(ascii: "\n") {
          return
        } else {
          blank()
        }
      }
    }

    func isEscape(hashes: Int) -> Bool {
      guard source[position] == UInt8(ascii: "\\"), position + hashes < source.count else { return false }
      return source[position + 1..<position + 1 + hashes].allSatisfy { $0 == UInt8(ascii: "#") }
    }

    func closes(hashes: Int, isMultiline: Bool) -> Bool {
      guard isMultiline ? starts(with: "\"\"\"") : source[position] == UInt8(ascii: "\"") else { return false }
      let end = position + (isMultiline ? 3 : 1)
      return end + hashes <= source.count && source[end..<end + hashes].allSatisfy { $0 == UInt8(ascii: "#") }
    }

    mutating func blankInterpolation() {
      var depth = 1
      while depth > 0, position < source.count {
        if let hashes = stringOpening() {
          blankString(hashes: hashes)
          continue
        }
        if source[position] == UInt8(ascii: "(") { depth += 1 }
        if source[position] == UInt8(ascii: ")") { depth -= 1 }
        blank()
      }
    }
  }
}
