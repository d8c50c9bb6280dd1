package import PushWire

/// What every notification of a campaign has in common, as a lane needs it to pack frames, or to make requests.
package struct CampaignFrames: Sendable {
  /// The number that ring records carry.
  package let campaign: UInt32
  package let command: FrameVersion
  package let payload: [UInt8]
  package let expiration: UInt32?
  package let priority: UInt8?
  /// For a lane that speaks HTTP/2; nil for one that packs frames.
  package let request: RequestTemplate?
  private let identifiers: APNSIdentifierSequence
  let template: FrameTemplate

  /// Of a notification with a token of 32 bytes and the campaign's payload. About as much for a request, whose headers are compressed.
  package var frameByteCount: Int { template.frameByteCount }

  /// - Parameters:
  ///   - payload: for all notifications that have none of their own.
  ///   - expiration: seconds since 1970, 0 for "do not store", nil to leave it out.
  package init(campaign: UInt32, command: FrameVersion, payload: [UInt8], expiration: UInt32?, priority: UInt8?) {
    self.campaign = campaign
    self.command = command
    self.payload = payload
    self.expiration = expiration
    self.priority = priority
    request = nil
    identifiers = APNSIdentifierSequence(IdentifierSeed(high: 0, low: 0))
    template = FrameTemplate(command: command, payload: payload, tokenByteCount: 32, expiration: expiration, priority: priority)
  }

  /// Of a campaign that goes out as requests.
  ///
  /// - Parameters:
  ///   - headers: checked before (``ProviderHeaders/check(payload:credential:)``); expiration and priority are theirs.
  ///   - payload: for all notifications that have none of their own.
  ///   - authority, credential: see ``RequestTemplate``.
  ///   - seed: of the identifiers; the same whenever the campaign goes on.
  package init(
    campaign: UInt32, authority: String, headers: ProviderHeaders, credential: ProviderCredentialKind, payload: [UInt8], seed: IdentifierSeed
  ) {
    self.campaign = campaign
    command = .framed
    self.payload = payload
    expiration = headers.expiration
    priority = headers.effectivePriority
    request = RequestTemplate(authority: authority, headers: headers, credential: credential, payload: payload)
    identifiers = APNSIdentifierSequence(seed)
    template = FrameTemplate(command: .framed, payload: payload, tokenByteCount: 32, expiration: expiration, priority: priority)
  }

  /// The `apns-id` of a notification: its own, or the one that the campaign's seed gives its line. The same each time it is sent, by whichever process.
  package func identifier(of record: RingRecord) -> APNSIdentifier { record.identifier ?? identifiers[record.ordinal] }
}

/// Packs frames from a ring into one buffer, so that a batch becomes one write.
///
/// The buffer is the loop's, reused for every batch; a run is what one call packs of one campaign.
@safe
package struct FramePacker: ~Copyable {
  /// What a call to ``pack(from:to:ring:frames:now:)`` took from the ring.
  package struct Run: Hashable {
    package enum Kind: Hashable {
      case packed
      /// Its expiration date has passed: not packed, and not to be sent.
      case expired
      /// The same, but an earlier connection may have delivered it.
      case expiredInDoubt
      /// Only padding: nothing to account for.
      case padding
    }

    package var kind: Kind
    package var end: UInt64
    package var lastStart: UInt64
    package var count: Int

    package init(kind: Kind, end: UInt64, lastStart: UInt64, count: Int) {
      self.kind = kind
      self.end = end
      self.lastStart = lastStart
      self.count = count
    }
  }

  private let buffers: LoopBuffers
  /// Since the last ``clear()``.
  private var buffer = unsafe UnsafeMutableRawBufferPointer(start: nil, count: 0)
  private let byteCountBound: Int
  package private(set) var byteCount = 0

  /// - Parameters:
  ///   - byteCountBound: of a batch. No batch is larger, except that one frame alone may be, so that none is ever too large to send.
  ///   - buffers: of the loop that it is used on.
  package init(byteCountBound: Int, buffers: LoopBuffers) {
    self.byteCountBound = byteCountBound
    self.buffers = buffers
  }

  /// No frame of any command is larger: 100 bytes of token, 5120 of payload, and the items around them.
  private static let frameByteCountLimit = 5_376

  /// The next frame belongs to the next batch.
  package private(set) var isFull = false
  package var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(rebasing: buffer[0..<byteCount]) }

  /// To be called before each batch: the memory is the packer's until it is called again, by this or another packer of the loop.
  package mutating func clear() {
    byteCount = 0
    isFull = false
    unsafe buffer = buffers.batch(byteCount: byteCountBound + Self.frameByteCountLimit)
  }

  /// Adds one known-bad probe.
  package mutating func packProbe(_ command: FrameVersion, identifier: UInt32) {
    byteCount += unsafe FrameEncoder.encodeProbe(command, identifier: identifier, into: UnsafeMutableRawBufferPointer(rebasing: buffer[byteCount...]))
  }

  /// Packs notifications of one campaign from `from` on: until `to`, another campaign, one of the other kind (expired or not), or a full buffer.
  ///
  /// - Parameters:
  ///   - frames: of the campaign of the first notification at or after `from`.
  ///   - now: seconds since 1970; expiration is checked here, when a notification is about to be sent.
  /// - Returns: nil when nothing could be taken: `from` is `to`, or the first frame would exceed the bound.
  package mutating func pack(from: UInt64, to: UInt64, ring: NotificationRing, frames: CampaignFrames, now: UInt32) -> Run? {
    guard from < to else { return nil }
    var run = Run(kind: .padding, end: from, lastStart: from, count: 0)
    let frameByteCount = frames.template.frameByteCount
    while run.end < to {
      let record = ring.record(at: run.end)
      guard record.isNotification else {
        run.end += record.blockCount
        continue
      }
      guard record.campaign == frames.campaign else { break }
      let expiration = record.expiration ?? frames.expiration
      let isExpired = if let expiration { expiration != 0 && expiration <= now } else { false }
      let kind: Run.Kind = !isExpired ? .packed : record.mayHaveArrived ? .expiredInDoubt : .expired
      guard run.count == 0 || run.kind == kind else { break }
      if !isExpired, !packOne(record, position: run.end, frames: frames, frameByteCount: frameByteCount) {
        isFull = true
        break
      }
      run.kind = kind
      run.lastStart = run.end
      run.end += record.blockCount
      run.count += 1
    }
    return run.end > from ? run : nil
  }

  /// False if it does not fit into this batch any more.
  @inline(__always)
  private mutating func packOne(_ record: RingRecord, position: UInt64, frames: CampaignFrames, frameByteCount: Int) -> Bool {
    let identifier = ResendWindow.identifier(at: position)
    let token = unsafe record.token
    if record.isPlain, token.count == 32, let source = token.baseAddress, let destination = unsafe buffer.baseAddress {
      guard hasRoom(for: frameByteCount) else { return false }
      // The template copies its frame without looking, and a first frame is packed whatever its size.
      precondition(unsafe frameByteCount <= buffer.count - byteCount, "a frame larger than any may be")
      unsafe frames.template.encode(token: source, identifier: identifier, into: destination + byteCount)
      byteCount += frameByteCount
      return true
    }
    let own = unsafe record.payload
    if own.count > 0 { return unsafe packAny(record, payload: own, identifier: identifier, frames: frames) }
    return unsafe frames.payload.withUnsafeBytes { unsafe packAny(record, payload: $0, identifier: identifier, frames: frames) }
  }

  /// The same for a frame that is not made from the template.
  private mutating func packAny(_ record: RingRecord, payload: UnsafeRawBufferPointer, identifier: UInt32, frames: CampaignFrames) -> Bool {
    let token = unsafe record.token
    let expiration = record.expiration ?? frames.expiration
    let priority = record.priority ?? frames.priority
    // Its exact size matters only near the bound.
    if !hasRoom(for: Self.frameByteCountLimit) {
      let size = FrameEncoder.byteCount(
        frames.command, tokenByteCount: token.count, payloadByteCount: payload.count, hasIdentifier: true, hasExpiration: expiration != nil,
        hasPriority: priority != nil)
      guard hasRoom(for: size) else { return false }
    }
    byteCount += unsafe FrameEncoder.encode(
      frames.command, token: token, payload: payload, identifier: identifier, expiration: expiration, priority: priority,
      into: UnsafeMutableRawBufferPointer(rebasing: buffer[byteCount...]))
    return true
  }

  @inline(__always)
  private func hasRoom(for frameByteCount: Int) -> Bool { byteCount + frameByteCount <= byteCountBound || byteCount == 0 }
}
