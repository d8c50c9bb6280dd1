package import PushWire

/// What every notification of a campaign has in common, as a lane needs it to pack frames, or to make requests.
package struct CampaignFrames: Sendable {
  /// The number that ring records carry.
  package let campaign: UInt32
  package let command: Command
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
  package init(campaign: UInt32, command: Command, payload: [UInt8], expiration: UInt32?, priority: UInt8?) {
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
/// The buffer is reused for every batch; a run is what one call packs of one campaign.
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

  private let buffer: UnsafeMutableRawBufferPointer
  private let byteCountBound: Int
  package private(set) var byteCount = 0

  /// - Parameter byteCountBound: of a batch; one frame may exceed it, so that no frame is ever too large to send.
  package init(byteCountBound: Int) {
    self.byteCountBound = byteCountBound
    unsafe buffer = .allocate(byteCount: byteCountBound + Self.frameByteCountLimit, alignment: 64)
  }

  deinit {
    unsafe buffer.deallocate()
  }

  /// No frame of any command is larger: 100 bytes of token, 5120 of payload, and the items around them.
  private static let frameByteCountLimit = 5_376

  package var isFull: Bool { byteCount >= byteCountBound }
  package var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(rebasing: buffer[0..<byteCount]) }

  package mutating func clear() {
    byteCount = 0
  }

  /// Adds one known-bad probe.
  package mutating func packProbe(_ command: Command, identifier: UInt32) {
    byteCount += unsafe FrameEncoder.encodeProbe(command, identifier: identifier, into: UnsafeMutableRawBufferPointer(rebasing: buffer[byteCount...]))
  }

  /// Packs notifications of one campaign from `from` on: until `to`, another campaign, one of the other kind (expired or not), or a full buffer.
  ///
  /// - Parameters:
  ///   - frames: of the campaign of the first notification at or after `from`.
  ///   - now: seconds since 1970; expiration is checked here, when a notification is about to be sent.
  /// - Returns: nil only when `from` is `to`.
  package mutating func pack(from: UInt64, to: UInt64, ring: NotificationRing, frames: CampaignFrames, now: UInt32) -> Run? {
    guard from < to else { return nil }
    var run = Run(kind: .padding, end: from, lastStart: from, count: 0)
    let frameByteCount = frames.template.frameByteCount
    while run.end < to, byteCount < byteCountBound {
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
      if !isExpired {
        byteCount += packOne(record, position: run.end, frames: frames, frameByteCount: frameByteCount)
      }
      run.kind = kind
      run.lastStart = run.end
      run.end += record.blockCount
      run.count += 1
    }
    return run
  }

  @inline(__always)
  private func packOne(_ record: RingRecord, position: UInt64, frames: CampaignFrames, frameByteCount: Int) -> Int {
    let identifier = ResendWindow.identifier(at: position)
    let token = unsafe record.token
    if record.isPlain, token.count == 32, let source = token.baseAddress, let destination = unsafe buffer.baseAddress {
      unsafe frames.template.encode(token: source, identifier: identifier, into: destination + byteCount)
      return frameByteCount
    }
    let destination = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[byteCount...])
    let own = unsafe record.payload
    let expiration = record.expiration ?? frames.expiration
    let priority = record.priority ?? frames.priority
    if own.count > 0 {
      return unsafe FrameEncoder.encode(
        frames.command, token: token, payload: own, identifier: identifier, expiration: expiration, priority: priority, into: destination)
    }
    return unsafe frames.payload.withUnsafeBytes { shared in
      unsafe FrameEncoder.encode(
        frames.command, token: token, payload: shared, identifier: identifier, expiration: expiration, priority: priority, into: destination)
    }
  }
}
