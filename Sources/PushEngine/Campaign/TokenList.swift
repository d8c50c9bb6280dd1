package import PushTransport
package import PushWire
internal import Synchronization

/// An audience in memory. Each token is one notification, numbered from 1.
package final class TokenList: AudienceSource {
  private let tokens: [TokenBytes]
  private let next = Atomic<Int>(0)

  /// - Parameter mark: Where to continue, if some of it was taken in before.
  package init(_ tokens: [TokenBytes], from mark: AudienceMark? = nil) {
    self.tokens = tokens
    if let mark { next.store(Int(clamping: mark.offset), ordering: .relaxed) }
  }

  package func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    var index = next.load(ordering: .relaxed)
    chunk.mark = AudienceMark(offset: UInt64(index), line: UInt64(index + 1))
    while index < tokens.count, chunk.count < chunk.entryLimit {
      chunk.append(line: UInt64(index + 1), token: tokens[index])
      index += 1
    }
    next.store(index, ordering: .relaxed)
    return chunk.count > 0 ? .entries : .end
  }
}

extension AudienceChunk {
  /// Adds one entry that is ready to be sent. The chunk must have room for it.
  func append(line: UInt64, token: TokenBytes) {
    unsafe token.withUnsafeBytes {
      unsafe append(line: line, token: $0, payload: UnsafeRawBufferPointer(start: nil, count: 0))
    }
  }

  /// The same with a payload of its own, unless it is empty. The chunk must have room for that too.
  func append(line: UInt64, token: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer) {
    unsafe append(line: line, token: token, headers: .none, payload: payload)
  }

  /// Adds one entry with headers of its own.
  package func append(
    line: UInt64, token: UnsafeRawBufferPointer, headers: RingRecord.OwnHeaders, payload: UnsafeRawBufferPointer
  ) {
    precondition(payloadEnd + payload.count <= payloadCapacity, "the chunk is full")
    if let source = payload.baseAddress {
      unsafe (payloads + payloadEnd).copyMemory(from: source, byteCount: payload.count)
    }
    unsafe append(
      line: line, token: token, headers: headers, payloadOffset: payloadEnd, payloadByteCount: payload.count)
    payloadEnd += payload.count
  }

  @inline(__always)
  private func append(
    line: UInt64, token: UnsafeRawBufferPointer, headers: RingRecord.OwnHeaders, payloadOffset: Int,
    payloadByteCount: Int
  ) {
    precondition(count < entryLimit && token.count <= AudienceReader.textByteLimit, "the chunk is full")
    if let source = token.baseAddress { unsafe (tokens + tokenEnd).copyMemory(from: source, byteCount: token.count) }
    let entry = AudienceEntry(
      line: line, payloadOffset: UInt32(payloadOffset), payloadByteCount: UInt32(payloadByteCount),
      tokenOffset: UInt32(tokenEnd), tokenByteCount: UInt8(token.count), kind: .ready, headersCode: headers.code)
    unsafe (entries + count).initialize(to: entry)
    if let source = unsafe headers.bytes.baseAddress {
      unsafe (tokens + tokenEnd + token.count).copyMemory(from: source, byteCount: headers.byteCount)
    }
    tokenEnd += token.count + headers.byteCount
    count += 1
    readyCount += 1
  }

  /// Whether one more entry with a payload of this size fits.
  package func hasRoom(payloadByteCount: Int) -> Bool {
    count < entryLimit && payloadByteCount <= payloadCapacity - payloadEnd
  }

  /// Adds one entry that is ready to be sent; see ``hasRoom(payloadByteCount:)``.
  ///
  /// - Parameters:
  ///   - payload: its own, or empty for the campaign's.
  ///   - identifier, collapseIdentifier: its own (HTTP/2). The latter has at most 64 bytes.
  ///   - expiration: its own, beside a collapse identifier of at most
  ///     ``RingRecord/OwnHeaders/collapseIdentifierByteCountLimitBesideExpiration`` bytes.
  package func append(
    line: UInt64, token: TokenBytes, payload: [UInt8] = [], identifier: APNSIdentifier? = nil,
    collapseIdentifier: String? = nil, expiration: UInt32? = nil
  ) {
    withOwnHeaders(identifier, collapseIdentifier, expiration) { headers in
      unsafe token.withUnsafeBytes { token in
        unsafe payload.withUnsafeBytes { unsafe append(line: line, token: token, headers: headers, payload: $0) }
      }
    }
  }

  /// Adds entries with the same payload and headers, as lines that follow each other: as many of
  /// them as fit. What they share is there once.
  ///
  /// - Parameter line: of the first.
  /// - Returns: how many.
  package func append(
    line: UInt64, tokens: ArraySlice<TokenBytes>, payload: [UInt8], identifier: APNSIdentifier?,
    collapseIdentifier: String?, expiration: UInt32?
  ) -> Int {
    guard hasRoom(payloadByteCount: payload.count) else { return 0 }
    let offset = payloadEnd
    let taken = tokens.prefix(entryLimit - count)
    withOwnHeaders(identifier, collapseIdentifier, expiration) { headers in
      unsafe payload.withUnsafeBytes { payload in
        if let source = payload.baseAddress {
          unsafe (payloads + offset).copyMemory(from: source, byteCount: payload.count)
        }
        var line = line
        for token in taken {
          unsafe token.withUnsafeBytes { token in
            unsafe append(
              line: line, token: token, headers: headers, payloadOffset: offset, payloadByteCount: payload.count)
          }
          line += 1
        }
      }
    }
    payloadEnd += payload.count
    return taken.count
  }

  private func withOwnHeaders(
    _ identifier: APNSIdentifier?, _ collapseIdentifier: String?, _ expiration: UInt32?,
    _ body: (RingRecord.OwnHeaders) -> Void
  ) {
    let collapse = Array((collapseIdentifier ?? "").utf8)
    let code = RingRecord.OwnHeaders.code(
      hasIdentifier: identifier != nil, hasExpiration: expiration != nil, collapseIdentifierByteCount: collapse.count)
    unsafe withUnsafeTemporaryAllocation(byteCount: RingRecord.OwnHeaders.byteCountLimit, alignment: 8) { own in
      var offset = 0
      if let identifier, let start = own.baseAddress {
        unsafe RingRecord.OwnHeaders.write(identifier, to: start)
        offset = RingRecord.OwnHeaders.identifierByteCount
      }
      if let expiration, let start = own.baseAddress {
        unsafe RingRecord.OwnHeaders.write(expiration: expiration, to: start + offset)
        offset += RingRecord.OwnHeaders.expirationByteCount
      }
      unsafe UnsafeMutableRawBufferPointer(rebasing: own[offset...]).copyBytes(from: collapse)
      unsafe body(RingRecord.OwnHeaders(code: code, start: UnsafeRawPointer(own.baseAddress)))
    }
  }

  /// Adds an entry that is not sent.
  ///
  /// - Parameter token: nil: it is not known any more.
  package func appendUnusable(line: UInt64, token: TokenBytes?, _ kind: AudienceEntry.Kind) {
    if let token, kind != .malformedRow {
      append(line: line, token: token)
    } else {
      // For these kinds, the entry holds the text that a report shows.
      let text = Array((token?.description ?? "").utf8.prefix(AudienceReader.textByteLimit))
      unsafe text.withUnsafeBytes { text in
        unsafe append(line: line, token: text, payload: UnsafeRawBufferPointer(start: nil, count: 0))
      }
    }
    mark(lastAs: kind)
  }

  /// The entry that was added last is of another kind than ready.
  func mark(lastAs kind: AudienceEntry.Kind) {
    guard kind != .ready else { return }
    unsafe entries[count - 1].kind = kind
    readyCount -= 1
  }

  /// Adds `count` entries that are ready to be sent, with tokens of 32 bytes without gaps in
  /// `bytes`. The chunk must have room for them.
  ///
  /// - Parameter line: Returns the line of the entry with this index, from 0.
  package func append(count added: Int, tokens bytes: UnsafeRawBufferPointer, line: (Int) -> UInt64) {
    precondition(
      added >= 0 && count + added <= entryLimit && bytes.count >= added * 32, "too many entries for the chunk")
    guard let source = bytes.baseAddress else { return }
    unsafe (tokens + tokenEnd).copyMemory(from: source, byteCount: added * 32)
    add(plainCount: added, line: line)
  }

  /// Where the token of the plain entry belongs that is to be added behind this many others.
  func place(ofPlain index: Int) -> UnsafeMutableRawPointer {
    unsafe tokens + tokenEnd + index &* TokenBytes.usualByteCount
  }

  /// Adds plain entries, on lines that follow each other, whose tokens are in their places. The
  /// chunk must have room for them.
  ///
  /// - Parameter line: of the first.
  func append(plainCount added: Int, line: UInt64) {
    precondition(added >= 0 && count + added <= entryLimit, "too many entries for the chunk")
    add(plainCount: added) { line &+ UInt64($0) }
  }

  @inline(__always)
  private func add(plainCount added: Int, line: (Int) -> UInt64) {
    let (first, firstToken) = (count, tokenEnd)
    for index in 0..<added {
      let entry = AudienceEntry(
        line: line(index), payloadOffset: 0, payloadByteCount: 0,
        tokenOffset: UInt32(truncatingIfNeeded: firstToken + index * 32), tokenByteCount: 32, kind: .ready)
      unsafe (entries + first + index).initialize(to: entry)
    }
    tokenEnd += added * 32
    count += added
    readyCount += added
    plainCount += added
  }
}
