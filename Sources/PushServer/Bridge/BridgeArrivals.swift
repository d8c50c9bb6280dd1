internal import Carillon
internal import Logging
internal import PushTransport
internal import PushWire

/// A client of the bridge and its app.
struct BridgeClient {
  let app: BridgeApp
  let push: PushApp
  /// The fingerprint of its certificate.
  let fingerprint: String
  let link: BridgeLink
}

/// Frames of a connection, with their numbers.
typealias BridgeFrames = [(number: UInt64, frame: BridgeTrail.Frame)]

/// The frames of one connection of the bridge: what one read has brought, and what may come again.
///
/// A value with everything that a frame needs, apart from the handler: frames come by the hundred
/// thousand a second, and each look at an object's variables is checked.
struct BridgeArrivals: BridgeIntake {
  let client: BridgeClient
  private let logger: Logger
  var trail: BridgeTrail
  private var reach = ResendReach()
  /// When the present bytes came. Beside it, whether frames of the client are remembered.
  private var readAt = Instant.start
  private var isRemembered = false
  /// The notifications of the present bytes.
  private var taken = IntakeBatch()
  /// The frames in `taken`, in the same order.
  private var takenFrames: [(number: UInt64, digest: FrameDigest)] = []
  private var recognised: [FrameStretch] = []
  private var preparation = BridgePreparation()

  init(_ client: BridgeClient, memory: ForwardedMemory.Limits, logger: Logger) {
    self.client = client
    self.logger = logger
    var limits = memory
    limits.count = client.app.trailLimit(client.fingerprint)
    trail = BridgeTrail(limits, pool: client.app.budget)
  }

  /// Called before the bytes of a read.
  mutating func begin(now: Instant) {
    readAt = now
    reach.arrive(trail.next, now: now)
    // Asked once for all frames of a read. What a client sends again it sends after its other
    // connection has ended, and was remembered then.
    isRemembered = client.app.remembers(client.fingerprint)
  }

  /// The connection broke: which of its frames may come again, from the first of them on.
  mutating func endByBreak(now: Instant) -> (from: UInt64, again: BridgeFrames, others: BridgeFrames) {
    let first = reach.first(now: now, next: trail.next)
    var (again, others): (BridgeFrames, BridgeFrames) = ([], [])
    for entry in trail.frames(from: 0, now: now) {
      if reach.comesAgain(entry.number, first: first) { again.append(entry) } else { others.append(entry) }
    }
    return (first, again, others)
  }

  mutating func take(_ frame: BridgeFrame, number: UInt64) -> FrameAnswer? {
    if isRemembered,
      let known = client.app.recognise(
        frame.digest, client: client.fingerprint, frame: number, connection: client.link.id, now: readAt)
    {
      trail.took(frame.digest, line: known.line, answer: known.answer)
      recognised.append(number, frame.digest, as: known.line)
      reach.recognise(number)
      return known.answer
    }
    trail.took(frame.digest, line: nil, answer: nil)
    do throws(CarillonError) {
      taken.append(try preparation.prepare(frame, client.push), frame.token)
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
    let link = client.link
    do throws(CarillonError) {
      try client.push.take(taken) { places, run, firstLine in
        var forwarded: [FrameStretch] = []
        var line = ForwardedLine(run, line: firstLine)
        for place in places.joined() {
          forwarded.append(takenFrames[place].number, takenFrames[place].digest, as: line)
          line = line.advanced(by: 1)
        }
        client.app.forwarded(forwarded, as: run, client: client.fingerprint, connection: link.id)
        for frames in forwarded { trail.forwarded(frames.number, count: frames.count, as: frames.line) }
      } answer: { problem in
        if problem != nil { link.put(.end(by: nil))?() }
      }
      return nil
    } catch {
      return first.number
    }
  }
}
