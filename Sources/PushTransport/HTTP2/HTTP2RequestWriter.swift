internal import PushWire

/// Writes the header blocks of requests.
///
/// What requests of a template have in common is encoded once for each connection, as long as the
/// dynamic table stays the same: from then on a request costs a copy, its token in hexadecimal and
/// its `apns-id`. Strings that are coded once have the Huffman code. Token and identifier do not:
/// it costs more than the bytes that it saves.
@safe
struct HTTP2RequestWriter: ~Copyable {
  /// Headers of the template that a notification may replace.
  private struct Replaced: OptionSet {
    let rawValue: UInt8

    static let expiration = Replaced(rawValue: 1)
    static let priority = Replaced(rawValue: 2)
    static let collapse = Replaced(rawValue: 4)

    init(rawValue: UInt8) { self.rawValue = rawValue }

    @inline(__always)
    init(_ overrides: borrowing RequestOverrides) {
      var value: UInt8 = 0
      if overrides.expiration != nil { value |= 1 }
      if overrides.priority != nil { value |= 2 }
      if unsafe overrides.collapseIdentifier != nil { value |= 4 }
      rawValue = value
    }
  }

  /// A field of the template behind the path, as a part of ``rest``.
  private struct Part {
    let end: Int
    let replacement: Replaced
  }

  private static let identifierName = Array("apns-id".utf8)
  private static let expirationName = Array("apns-expiration".utf8)
  private static let priorityName = Array("apns-priority".utf8)
  private static let collapseName = Array("apns-collapse-id".utf8)
  private static let devicePath: StaticString = "/3/device/"
  /// A literal that is never indexed, with the name `:path` of the static table.
  private static let pathName: UInt8 = 0x14
  /// The most bytes of a path and an identifier, with what precedes them.
  private static let ownByteCount = 400

  private var encoder = HPACKEncoder()
  private var expirations = HTTP2Expirations()
  private var authorization: [UInt8] = []

  // The template's block.
  private var template: RequestTemplate?
  private var generation = 0
  /// Fields that the block lacks, because the request that it was made for replaces them.
  private var missing: Replaced = []
  /// Up to the path; with it if the template has one.
  private var head: [UInt8] = []
  /// The fields behind the path, authorization, and the beginning of the identifier.
  private var rest: [UInt8] = []
  private var parts: [Part] = []
  private var partsEnd = 0
  private var authorizationEnd = 0

  /// What is encoded for one request.
  private var scratch: [UInt8] = []
  private let text: UnsafeMutablePointer<UInt8>

  init() { unsafe text = .allocate(capacity: APNSIdentifier.textByteCount) }

  deinit { unsafe text.deallocate() }

  /// The peer's SETTINGS_HEADER_TABLE_SIZE.
  mutating func setTableLimit(_ byteCount: Int) { encoder.setTableLimit(byteCount) }

  mutating func setAuthorization(_ value: String?) {
    authorization.removeAll()
    if let value {
      let value = Array(value.utf8)
      unsafe value.withUnsafeBytes {
        unsafe encoder.encode(name: Array("authorization".utf8), value: $0, .never, into: &authorization)
      }
    }
    template = nil
  }

  /// Appends the header block of a request.
  mutating func write(
    _ template: RequestTemplate, token: UnsafeRawBufferPointer, identifier: APNSIdentifier?,
    overrides: borrowing RequestOverrides, to output: HTTP2Output
  ) {
    if encoder.mustResize {
      scratch.removeAll(keepingCapacity: true)
      encoder.begin(into: &scratch)
      output.append(scratch)
    }
    let replaced = Replaced(overrides)
    if self.template !== template || generation != encoder.generation || !missing.isSubset(of: replaced) {
      load(template, without: replaced)
    }
    var place = unsafe output.room(for: head.count + rest.count + Self.ownByteCount)
    let start = unsafe place
    unsafe Self.copy(head, 0..<head.count, to: &place)
    if template.isForDevices { unsafe Self.path(token, to: &place) }
    let hasReference = identifier != nil && rest.count > authorizationEnd
    if replaced.isEmpty {
      unsafe Self.copy(rest, 0..<(hasReference ? rest.count : authorizationEnd), to: &place)
    } else {
      var begin = 0
      for part in parts {
        if part.replacement.isDisjoint(with: replaced) { unsafe Self.copy(rest, begin..<part.end, to: &place) }
        begin = part.end
      }
      unsafe Self.copy(rest, partsEnd..<(hasReference ? rest.count : authorizationEnd), to: &place)
    }
    if hasReference, let identifier {
      unsafe identifier.write(into: UnsafeMutableRawBufferPointer(start: place, count: APNSIdentifier.textByteCount))
      unsafe place += APNSIdentifier.textByteCount
    }
    unsafe output.advance(place - start)
    // What goes into the table comes last: it changes the indices.
    guard !replaced.isEmpty || identifier != nil && !hasReference else { return }
    scratch.removeAll(keepingCapacity: true)
    if !hasReference, let identifier { encode(identifier) }
    encode(overrides)
    output.append(scratch)
  }

  @inline(__always)
  private static func copy(_ bytes: borrowing [UInt8], _ range: Range<Int>, to place: inout UnsafeMutableRawPointer) {
    unsafe bytes.withUnsafeBytes { bytes in
      guard let base = bytes.baseAddress, range.count > 0 else { return }
      unsafe place.copyMemory(from: base + range.lowerBound, byteCount: range.count)
    }
    unsafe place += range.count
  }

  @inline(__always)
  private static func path(_ token: UnsafeRawBufferPointer, to place: inout UnsafeMutableRawPointer) {
    let count = devicePath.utf8CodeUnitCount + 2 * min(token.count, HTTP2Hexadecimal.byteCountLimit)
    unsafe place.storeBytes(of: pathName, as: UInt8.self)
    unsafe place += 1
    if count < 127 {
      unsafe place.storeBytes(of: UInt8(count), as: UInt8.self)
      unsafe place += 1
    } else {
      // At most 210: one byte beyond the prefix, or two.
      let more = count - 127
      unsafe place.storeBytes(of: 127, as: UInt8.self)
      unsafe place.storeBytes(of: UInt8(more), toByteOffset: 1, as: UInt8.self)
      unsafe place += 2
    }
    unsafe place.copyMemory(from: devicePath.utf8Start, byteCount: devicePath.utf8CodeUnitCount)
    unsafe place += devicePath.utf8CodeUnitCount
    let digits = unsafe place.assumingMemoryBound(to: UInt8.self)
    unsafe place += HTTP2Hexadecimal.write(token, into: digits)
  }

  // MARK: The template's block

  private mutating func load(_ template: RequestTemplate, without replaced: Replaced) {
    self.template = template
    // If a field goes into the table, the block is good for this request only.
    generation = encoder.generation
    missing = []
    head.removeAll(keepingCapacity: true)
    rest.removeAll(keepingCapacity: true)
    parts.removeAll(keepingCapacity: true)
    for (index, field) in template.fields.enumerated() {
      if index == RequestTemplate.pathIndex, template.isForDevices { continue }
      if index <= RequestTemplate.pathIndex {
        Self.encode(field, &encoder, into: &head)
        continue
      }
      let replacement: Replaced =
        switch index {
        case template.expirationIndex: .expiration
        case template.priorityIndex: .priority
        case template.collapseIndex: .collapse
        default: []
        }
      if replacement.isEmpty || replaced.isDisjoint(with: replacement) {
        Self.encode(field, &encoder, into: &rest)
      } else {
        missing.formUnion(replacement)
      }
      parts.append(Part(end: rest.count, replacement: replacement))
    }
    partsEnd = rest.count
    rest += authorization
    authorizationEnd = rest.count
    if let reference = encoder.reference(toName: Self.identifierName) {
      rest += reference
      rest.append(UInt8(APNSIdentifier.textByteCount))
    }
  }

  private static func encode(
    _ field: RequestTemplate.Field, _ encoder: inout HPACKEncoder, into output: inout [UInt8]
  ) {
    unsafe field.value.withUnsafeBytes {
      unsafe encoder.encode(name: field.name, value: $0, field.isIndexed ? .always : .never, into: &output)
    }
  }

  // MARK: What a request has of its own

  /// The first identifier goes into the table, so that later ones do not repeat the field's name
  /// (HTTP2ProviderAPI.md, section 1).
  private mutating func encode(_ identifier: APNSIdentifier) {
    unsafe identifier.write(into: UnsafeMutableRawBufferPointer(start: text, count: APNSIdentifier.textByteCount))
    unsafe encode(Self.identifierName, UnsafeRawBufferPointer(start: text, count: APNSIdentifier.textByteCount), .name)
  }

  private mutating func encode(_ overrides: borrowing RequestOverrides) {
    if let expiration = overrides.expiration {
      let count = unsafe HTTP2Decimal.write(expiration, into: text)
      unsafe encode(
        Self.expirationName, UnsafeRawBufferPointer(start: text, count: count),
        expirations.isIndexed(expiration) ? .always : .never)
    }
    if let priority = overrides.priority {
      let count = unsafe HTTP2Decimal.write(UInt32(priority), into: text)
      unsafe encode(Self.priorityName, UnsafeRawBufferPointer(start: text, count: count), .always)
    }
    if let collapse = unsafe overrides.collapseIdentifier { unsafe encode(Self.collapseName, collapse, .name) }
  }

  private mutating func encode(_ name: [UInt8], _ value: UnsafeRawBufferPointer, _ indexing: HPACKEncoder.Indexing) {
    unsafe encoder.encode(name: name, value: value, indexing, into: &scratch)
  }
}

/// Which of a connection's expirations are indexed (HTTP2ProviderAPI.md, section 1).
///
/// The first one is, so that later ones do not repeat the field's name. Of the others, one that two
/// requests in a row have is: many notifications often expire at the same time, and then each needs
/// one byte instead of twelve.
private struct HTTP2Expirations {
  private var last: UInt32?
  private var indexed: UInt32?

  mutating func isIndexed(_ expiration: UInt32) -> Bool {
    defer { last = expiration }
    guard indexed == nil || expiration == indexed || expiration == last else { return false }
    indexed = expiration
    return true
  }
}
