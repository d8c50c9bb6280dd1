/// The frames of one bridge connection that have no answer yet, and how the connection is
/// concluded.
///
/// A client takes an error response for frame *k* to mean that everything before *k* was accepted
/// and everything after it was discarded. So the response is written only when every frame before
/// *k* has its answer and none of those failed: *k* is the first that failed.
///
/// Status 10 for frame *k* means that everything up to *k* was taken. Where answers are awaited no
/// longer, *k* is the last frame in the journal: it gets its outcome later. A number that a client
/// does not know would make some of them lose everything.
///
/// Frames are numbered from 0 in the order of their arrival. Answers come in any order, each once.
/// Without bytes, sockets and clock: times are parameters.
package struct BridgeWindow: Sendable {
  package struct Limits: Hashable, Sendable {
    /// Frames without an answer at which nothing more is read.
    package var frameCount = 16_384
    /// Bytes of payloads without an answer at which nothing more is read.
    package var byteCount = 8 << 20
    /// How long a conclusion may wait for the answers of earlier frames.
    package var conclusionTime = Duration.seconds(30)
    /// A planted mistake; only tests set it.
    package var plantedMistake: PlantedMistake?

    package init() {}
  }

  package enum PlantedMistake: Hashable, Sendable, CaseIterable {
    /// The first failure that is heard of is answered at once.
    case answersEarly
    /// Status 10 names the last frame that has arrived, whether it was taken in or not.
    case namesUntaken
  }

  package enum Conclusion: Hashable, Sendable {
    /// The first frame that failed. No response for command 0: the connection is closed without
    /// one.
    case failed(UInt64, ErrorResponse?)
    /// Status 10: every frame before this one was accepted or is in the journal, and the client
    /// sends the rest again.
    case shutDown(from: UInt64, ErrorResponse?)
    /// The client sends nothing more, and gets no error response.
    case finished
  }

  private struct Entry {
    var identifier: UInt32
    var byteCount: UInt32
    var isSimple: Bool
    var answer: FrameAnswer?
  }

  private let limits: Limits
  private var entries = Queue<Entry>()
  /// The number of the first entry: every frame before it was accepted.
  package private(set) var firstUnanswered: UInt64 = 0
  /// What status 10 names. Before any frame was accepted, the number before the first one's, and
  /// before any has arrived, the number before 0: a client that counts from 0 would take 0 for its
  /// first frame.
  private var lastAccepted: UInt32 = .max
  private var waitingByteCount = 0
  private var waitingCount = 0
  /// The first frame that is known to have failed. What comes after it is discarded.
  private var firstFailure: UInt64?
  /// Command 0 has no identifiers, and its clients read nothing.
  private var isSimpleOnly = true
  private var isEnding = false
  /// Every frame before this one is in the journal, or was not taken in.
  private var firstUnjournalled: UInt64 = 0
  /// Frames from this one on get no answer.
  private var lastFrame: UInt64?
  private var peerHasClosed = false
  /// When the conclusion must be drawn, whatever is known by then.
  package private(set) var deadline: Instant?
  package private(set) var conclusion: Conclusion?

  package init(_ limits: Limits = Limits()) { self.limits = limits }

  /// The number that the next frame gets.
  package var nextFrame: UInt64 { firstUnanswered + UInt64(entries.count) }
  /// Frames that have no answer.
  package var pendingCount: Int { waitingCount }
  /// False: what arrives is discarded.
  package var takesFrames: Bool { firstFailure == nil && !isEnding && conclusion == nil }
  /// Whether there is room for more.
  package var hasRoom: Bool { entries.count < limits.frameCount && waitingByteCount < limits.byteCount }

  // MARK: Events

  /// A frame has arrived. Only while ``takesFrames``.
  package mutating func arrived(identifier: UInt32?, isSimple: Bool, byteCount: Int) -> UInt64 {
    precondition(takesFrames, "a frame after the last one")
    let number = nextFrame
    if !isSimple { isSimpleOnly = false }
    if number == 0 { lastAccepted = (identifier ?? 1) &- 1 }
    entries.append(
      Entry(identifier: identifier ?? 0, byteCount: UInt32(clamping: byteCount), isSimple: isSimple, answer: nil))
    waitingByteCount += byteCount
    waitingCount += 1
    return number
  }

  /// Neighbouring frames have the same answer. Answers after the conclusion, and second ones, are
  /// ignored.
  ///
  /// - Parameter frame: the first.
  package mutating func answered(_ frame: UInt64, count: Int = 1, _ answer: FrameAnswer, now: Instant) {
    for frame in frame..<(frame + UInt64(count)) { note(frame, answer, now: now) }
    if conclusion == nil { advance() }
  }

  private mutating func note(_ frame: UInt64, _ answer: FrameAnswer, now: Instant) {
    guard conclusion == nil, frame >= firstUnanswered, frame < nextFrame else { return }
    let offset = Int(frame - firstUnanswered)
    let entry = entries[offset]
    guard entry.answer == nil else { return }
    waitingByteCount -= Int(entry.byteCount)
    waitingCount -= 1
    entries.update(at: offset) { $0.answer = answer }
    if case .refused = answer {
      firstFailure = min(firstFailure ?? .max, frame)
      setDeadline(now)
      if limits.plantedMistake == .answersEarly, case .refused(let status) = answer {
        conclusion = .failed(frame, ErrorResponse(status: status, identifier: entry.identifier))
      }
    }
  }

  /// Everything that was taken in before a frame is in the journal.
  package mutating func journalled(before frame: UInt64) { firstUnjournalled = max(firstUnjournalled, frame) }

  /// The bridge or its upstream ends: no more frames are taken, and an error response names the
  /// last one that was.
  ///
  /// - Parameters:
  ///   - frame: nothing from this one on was taken in. Nil: everything was.
  ///   - latest: when the conclusion must be drawn, if that is earlier than it would be.
  package mutating func end(before frame: UInt64? = nil, by latest: Instant? = nil, now: Instant) {
    guard conclusion == nil else { return }
    if let frame { lastFrame = min(lastFrame ?? .max, frame) }
    isEnding = true
    setDeadline(now)
    if let latest { deadline = min(deadline ?? latest, latest) }
    advance()
    woken(now: now)
  }

  /// The client sends nothing more. It may still read.
  package mutating func peerClosed(now: Instant) {
    guard conclusion == nil, !peerHasClosed else { return }
    peerHasClosed = true
    setDeadline(now)
    advance()
  }

  package mutating func woken(now: Instant) {
    guard conclusion == nil, let deadline, now >= deadline else { return }
    // A client of command 0 that closed its side takes everything for accepted.
    conclusion = firstFailure == nil && !isEnding && isMute ? .finished : shutDown
  }

  // MARK: Steps

  private mutating func setDeadline(_ now: Instant) {
    if deadline == nil { deadline = now + limits.conclusionTime }
  }

  private mutating func advance() {
    while let first = entries.first, let answer = first.answer {
      guard case .refused(let status) = answer else {
        lastAccepted = first.identifier
        firstUnanswered += 1
        entries.removeFirst()
        continue
      }
      conclusion = .failed(
        firstUnanswered, first.isSimple ? nil : ErrorResponse(status: status, identifier: first.identifier))
      return
    }
    guard entries.count == 0 || firstUnanswered == lastFrame else { return }
    if isEnding { conclusion = shutDown } else if peerHasClosed { conclusion = .finished }
  }

  /// Whether a response would say nothing to the client.
  private var isMute: Bool { isSimpleOnly && nextFrame > 0 }

  private var shutDown: Conclusion {
    let from = firstNotNamed
    let last = from == firstUnanswered ? lastAccepted : entries[Int(from - firstUnanswered) - 1].identifier
    return .shutDown(from: from, isMute ? nil : ErrorResponse(status: .shutdown, identifier: last))
  }

  /// The frame behind the one that status 10 names.
  private var firstNotNamed: UInt64 {
    if limits.plantedMistake == .namesUntaken { return nextFrame }
    // A client that is told of accepted frames only hears of all refusals, on its next connection.
    guard isEnding || firstUnanswered == 0 else { return firstUnanswered }
    let taken = min(nextFrame, firstUnjournalled, firstFailure ?? .max, lastFrame ?? .max)
    return max(firstUnanswered, taken)
  }
}
