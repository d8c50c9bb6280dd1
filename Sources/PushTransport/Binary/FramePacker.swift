package import PushWire

/// What all notifications of a campaign share, as a lane needs it for packing frames or making
/// requests.
package final class CampaignFrames: Sendable {
  /// The campaign's number in ring records.
  package let campaign: UInt32
  package let command: FrameVersion
  package let payload: [UInt8]
  package let expiration: UInt32?
  package let priority: UInt8?
  /// For a lane with HTTP/2; nil for a lane that packs frames.
  package let request: RequestTemplate?
  private let identifiers: APNSIdentifierSequence
  let template: FrameTemplate

  /// The frame size of a notification with a token of 32 bytes and the campaign's payload. A
  /// request, whose headers are compressed, takes about as much.
  package var frameByteCount: Int { template.frameByteCount }

  /// - Parameters:
  ///   - payload: for all notifications without one of their own.
  ///   - expiration: seconds since 1970; 0: do not store; nil: left out.
  package init(campaign: UInt32, command: FrameVersion, payload: [UInt8], expiration: UInt32?, priority: UInt8?) {
    (self.campaign, self.command, self.payload) = (campaign, command, payload)
    (self.expiration, self.priority) = (expiration, priority)
    request = nil
    identifiers = APNSIdentifierSequence(IdentifierSeed(high: 0, low: 0))
    template = FrameTemplate(
      command: command, payload: payload, tokenByteCount: 32, expiration: expiration, priority: priority)
  }

  /// For a campaign that is sent as requests.
  ///
  /// - Parameters:
  ///   - headers: checked before (``ProviderHeaders/check(payload:credential:)``); they contain
  ///     expiration and priority.
  ///   - payload: for all notifications without one of their own.
  ///   - authority, credential: see ``RequestTemplate``.
  ///   - seed: for the identifiers; the same each time the campaign is resumed.
  package init(
    campaign: UInt32, authority: String, headers: ProviderHeaders, credential: ProviderCredentialKind, payload: [UInt8],
    seed: IdentifierSeed
  ) {
    self.campaign = campaign
    command = .framed
    self.payload = payload
    expiration = headers.expiration
    priority = headers.effectivePriority
    request = RequestTemplate(authority: authority, headers: headers, credential: credential, payload: payload)
    identifiers = APNSIdentifierSequence(seed)
    template = FrameTemplate(
      command: .framed, payload: payload, tokenByteCount: 32, expiration: expiration, priority: priority)
  }

  /// The `apns-id` of a notification: its own, or the one that the campaign's seed gives its line.
  /// It is the same for each resend in any process.
  package func identifier(of record: RingRecord) -> APNSIdentifier { record.identifier ?? identifiers[record.ordinal] }
}

/// Packs frames from a ring into one buffer, so that a batch is one write.
///
/// The buffer belongs to the loop and is reused for every batch. A run is what one call packs from
/// one campaign.
@safe
package struct FramePacker: ~Copyable {
  /// What a call to ``pack(from:to:ring:frames:now:)`` took from the ring.
  package struct Run: Hashable {
    /// A type of this module: comparing one of another takes a call for each frame.
    package enum Kind: Hashable {
      case packed
      /// The expiration date has passed: not packed and not to be sent.
      case expired
      /// Expired too, but an earlier connection may have delivered it.
      case expiredInDoubt
      /// Only padding, without a notification.
      case padding
    }

    package var kind: Kind
    package var end: UInt64
    package var lastStart: UInt64
    package var count: Int

    package init(kind: Kind, end: UInt64, lastStart: UInt64, count: Int) {
      (self.kind, self.end, self.lastStart, self.count) = (kind, end, lastStart, count)
    }
  }

  private let buffers: LoopBuffers
  /// Valid since the last ``clear()``.
  private var buffer = unsafe UnsafeMutableRawBufferPointer(start: nil, count: 0)
  private let byteCountBound: Int
  package private(set) var byteCount = 0

  /// - Parameters:
  ///   - byteCountBound: the largest batch in bytes. Only a batch of one frame may be larger, so
  ///     that every frame can be sent.
  ///   - buffers: those of the loop that uses the packer.
  package init(byteCountBound: Int, buffers: LoopBuffers) {
    (self.byteCountBound, self.buffers) = (byteCountBound, buffers)
  }

  /// No frame of any command is larger: 100 bytes of token, 5120 of payload, and the items around
  /// them.
  private static let frameByteCountLimit = 5_376

  /// The next frame belongs to the next batch.
  package private(set) var isFull = false
  package var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(rebasing: buffer[0..<byteCount]) }

  /// Must be called before each batch. The memory belongs to this packer until this or another
  /// packer of the loop calls it again.
  package mutating func clear() {
    byteCount = 0
    isFull = false
    unsafe buffer = buffers.batch(byteCount: byteCountBound + Self.frameByteCountLimit)
  }

  /// Adds one known-bad probe.
  package mutating func packProbe(_ command: FrameVersion, identifier: UInt32) {
    byteCount += unsafe FrameEncoder.encodeProbe(
      command, identifier: identifier, into: UnsafeMutableRawBufferPointer(rebasing: buffer[byteCount...]))
  }

  /// Packs notifications of one campaign, beginning at `from`. It stops at `to`, at another
  /// campaign, where expired notifications follow others or the reverse, and when the buffer is
  /// full.
  ///
  /// - Parameters:
  ///   - frames: of the campaign of the first notification at or after `from`.
  ///   - now: seconds since 1970. Expiration is checked here, just before a notification is sent.
  ///   - oldEnd: notifications before this line have expired in any case.
  /// - Returns: nil if nothing was taken: `from` is `to`, or the first frame would exceed the
  ///   bound.
  package mutating func pack(
    from: UInt64, to: UInt64, ring: NotificationRing, frames: CampaignFrames, now: UInt32, oldEnd: UInt64 = 0
  ) -> Run? {
    guard from < to else { return nil }
    var run = Run(kind: .padding, end: from, lastStart: from, count: 0)
    while run.end < to {
      let record = ring.record(at: run.end)
      if record.isPlain(of: frames.campaign), run.count == 0 || run.kind == .packed,
        packPlain(&run, to: to, ring: ring, frames: frames, now: now, oldEnd: oldEnd)
      {
        continue
      }
      guard record.isNotification else {
        run.end += record.blockCount
        continue
      }
      guard record.campaign == frames.campaign else { break }
      let expiration = record.expiration ?? frames.expiration
      let isPast = if let expiration { expiration != 0 && expiration <= now } else { false }
      let isExpired = isPast || record.ordinal < oldEnd
      let kind: Run.Kind = !isExpired ? .packed : record.mayHaveArrived ? .expiredInDoubt : .expired
      guard run.count == 0 || run.kind == kind else { break }
      if !isExpired, !packOne(record, position: run.end, frames: frames) {
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

  /// Packs notifications without anything of their own, as long as they follow each other and fit
  /// into this batch. Returns false if it packed none.
  private mutating func packPlain(
    _ run: inout Run, to: UInt64, ring: NotificationRing, frames: CampaignFrames, now: UInt32, oldEnd: UInt64
  ) -> Bool {
    if let expiration = frames.expiration, expiration != 0, expiration <= now { return false }
    let template = frames.template
    let fitting = max((byteCountBound - byteCount) / template.frameByteCount, byteCount == 0 ? 1 : 0)
    let limit = min(Int(clamping: to - run.end), fitting)
    let count = ring.plainCount(from: run.end, limit: limit, campaign: frames.campaign, firstOrdinal: oldEnd)
    guard count > 0, let start = unsafe buffer.baseAddress else { return false }
    // The template copies its frame without a check, and the first frame is packed whatever its
    // size is.
    precondition(
      unsafe count * template.frameByteCount <= buffer.count - byteCount, "the frames are larger than the buffer")
    unsafe template.encode(
      count: count, tokens: ring.plainToken(at: run.end), stride: NotificationRing.blockByteCount,
      position: run.end, into: start + byteCount)
    byteCount += count * template.frameByteCount
    run.kind = .packed
    run.count += count
    run.end += UInt64(count)
    run.lastStart = run.end - 1
    return true
  }

  /// Packs a frame that is not made from the template. Returns false if it does not fit into this
  /// batch.
  @inline(__always)
  private mutating func packOne(_ record: RingRecord, position: UInt64, frames: CampaignFrames) -> Bool {
    let identifier = ResendWindow.identifier(at: position)
    let own = unsafe record.payload
    if own.count > 0 { return unsafe packAny(record, payload: own, identifier: identifier, frames: frames) }
    return unsafe frames.payload.withUnsafeBytes {
      unsafe packAny(record, payload: $0, identifier: identifier, frames: frames)
    }
  }

  private mutating func packAny(
    _ record: RingRecord, payload: UnsafeRawBufferPointer, identifier: UInt32, frames: CampaignFrames
  ) -> Bool {
    let token = unsafe record.token
    let expiration = record.expiration ?? frames.expiration
    let priority = record.priority ?? frames.priority
    // The exact size matters only near the bound.
    if !hasRoom(for: Self.frameByteCountLimit) {
      let size = FrameEncoder.byteCount(
        frames.command, tokenByteCount: token.count, payloadByteCount: payload.count, hasIdentifier: true,
        hasExpiration: expiration != nil, hasPriority: priority != nil)
      guard hasRoom(for: size) else { return false }
    }
    byteCount += unsafe FrameEncoder.encode(
      frames.command, token: token, payload: payload, identifier: identifier, expiration: expiration,
      priority: priority, into: UnsafeMutableRawBufferPointer(rebasing: buffer[byteCount...]))
    return true
  }

  @inline(__always)
  private func hasRoom(for frameByteCount: Int) -> Bool {
    byteCount + frameByteCount <= byteCountBound || byteCount == 0
  }
}
