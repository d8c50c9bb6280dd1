internal import Carillon
internal import Logging
internal import PushTransport
internal import PushWire
internal import Synchronization

/// A client of the bridge and its app.
struct BridgeClient {
  let app: BridgeApp
  let push: PushApp
  let fingerprint: String
  let link: BridgeLink
}

/// The frames of one connection of the bridge: what one read has brought, and what may come again.
///
/// A value with everything that a frame needs, apart from the handler: frames come by the hundred
/// thousand a second, and each look at an object's variables is checked.
package struct BridgeArrivals: BridgeIntake {
  let client: BridgeClient
  private let logger: Logger
  var trail: BridgeTrail
  /// When the present bytes came. Beside it, whether frames of the client are remembered.
  private var readAt = Instant.start
  private var isRemembered = false
  /// Whether it is known what the connection begins with.
  private var hasBegun = false
  /// Frames that had been forwarded before, and the first of them.
  private var resends: (count: Int, first: ForwardedLine?) = (0, nil)
  /// The notifications of the present bytes.
  private var taken = IntakeBatch(isBridge: true)
  /// The frames in `taken`, in the same order.
  private var takenFrames: [(number: UInt64, digest: FrameDigest)] = []
  private var recognised: [FrameStretch] = []
  private var preparation = BridgePreparation()

  init(_ client: BridgeClient, memory: ForwardedMemory.Limits, logger: Logger) {
    (self.client, self.logger) = (client, logger)
    var limits = memory
    limits.count = client.app.trailLimit(client.fingerprint)
    trail = BridgeTrail(limits, pool: client.app.budget)
  }

  /// Called before the bytes of a read.
  mutating func begin(now: Instant, forgets: Bool) {
    readAt = now
    trail.arrive(now: now)
    let isShared = client.app.isShared.load(ordering: .relaxed)
    if taken.isShared != isShared { taken = IntakeBatch(isBridge: true, isShared: isShared) }
    // Asked once for all frames of a read. What a client sends again it sends after its other
    // connection has ended, and was remembered then.
    isRemembered = !forgets && client.app.remembers(client.fingerprint)
  }

  mutating func take(_ frame: BridgeFrame, number: UInt64) -> FrameAnswer? {
    if isRemembered,
      let known = client.app.recognise(
        frame.digest, client: client.fingerprint, frame: number, connection: client.link.id, now: readAt)
    {
      hasBegun = true
      trail.recognised(frame.digest, known)
      recognised.append(number, frame.digest, as: known.line)
      resends = (resends.count + 1, resends.first ?? known.line)
      return known.answer
    }
    trail.took(frame.digest, line: nil, answer: nil)
    do throws(CarillonError) {
      taken.append(try preparation.prepare(frame, client.push, client.app.clock), frame.token)
      if !hasBegun {
        hasBegun = true
        if isRemembered { isRemembered = client.app.goesOn(client.link.id, client: client.fingerprint) }
      }
      takenFrames.append((number, frame.digest))
      return nil
    } catch {
      logger.info("a frame cannot be sent", metadata: ["app": "\(client.app.id)", "why": "\(error.message)"])
      return .refused(.processingError)
    }
  }

  /// Gives the app what the bytes have brought.
  ///
  /// - Returns: the first frame that it does not take; nil: it has taken all of them.
  mutating func handOver() -> UInt64? {
    if !recognised.isEmpty {
      client.app.recognised(recognised, client: client.fingerprint, connection: client.link.id)
      recognised.removeAll(keepingCapacity: true)
    }
    guard let first = takenFrames.first else { return nil }
    defer {
      taken.removeAll()
      takenFrames.removeAll(keepingCapacity: true)
    }
    let (app, link, isShared) = (client.app, client.link, taken.isShared)
    link.handsOver(first.number)
    do throws(CarillonError) {
      try client.push.take(taken) { places, run, firstLine in
        var forwarded: [FrameStretch] = []
        var line = ForwardedLine(run, line: firstLine)
        for place in places.joined() {
          forwarded.append(takenFrames[place].number, takenFrames[place].digest, as: line)
          line = line.advanced(by: 1)
        }
        if isShared { app.keep(run, from: firstLine, taken.notifications(at: places)) }
        app.forwarded(forwarded, as: run, client: client.fingerprint, connection: link.id)
        for frames in forwarded { trail.forwarded(frames.number, count: frames.count, as: frames.line) }
      } answer: { problem in
        guard problem == nil else { return link.put(.end(by: nil))?() ?? () }
        app.whenSafe(isShared: isShared) { link.isJournalled(first.number) }
      }
      return nil
    } catch {
      return first.number
    }
  }

  /// Every frame before this one is in the journal, or was not taken in.
  var firstUnjournalled: UInt64 { client.link.firstUnjournalled ?? trail.next }

  /// Says how many frames of the connection were not sent again.
  func logResends() {
    guard let first = resends.first, let run = IntakeRunID(high: first.high, low: first.low) else { return }
    logger.notice(
      "a client has sent again what was forwarded before; it is not sent twice",
      metadata: [
        "app": "\(client.app.id)", "client": "\(client.fingerprint)", "notifications": "\(resends.count)",
        "first": "\(NotificationID(run: run, line: first.line))",
      ])
  }
}

/// Frames of a connection of which each is the next frame and the next line of a run.
struct FrameStretch {
  /// The number of the first frame.
  let number: UInt64
  /// The line of the first frame.
  let line: ForwardedLine
  var digests: [FrameDigest]

  var count: Int { digests.count }
}

extension [FrameStretch] {
  /// Adds a frame, to the last stretch if it belongs there.
  mutating func append(_ number: UInt64, _ digest: FrameDigest, as line: ForwardedLine) {
    if let last = indices.last, self[last].number + UInt64(self[last].count) == number,
      self[last].line.advanced(by: self[last].count) == line
    {
      self[last].digests.append(digest)
    } else {
      append(FrameStretch(number: number, line: line, digests: [digest]))
    }
  }
}
