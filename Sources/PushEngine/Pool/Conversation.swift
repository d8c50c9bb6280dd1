internal import PushTransport
internal import PushWire

/// One protocol between a lane and its gateway. It owns a machine, which decides, and a packer or
/// session, which makes the bytes.
///
/// ``Lane`` owns the ring, the link and the timer. It calls the conversation on its loop: once per
/// turn, per read of the socket and per connection, never once per notification. Both
/// implementations are concrete types inside (Decisions.md, "One lane, two conversations").
protocol Conversation: AnyObject {
  /// True when no connection is open, opening or closing.
  var isDisconnected: Bool { get }
  /// The connection can carry notifications.
  var isOpen: Bool { get }
  /// The last connection was closed because it was idle.
  var endedIdle: Bool { get }
  /// Everything before this position is final: it will not be sent again.
  var progress: UInt64 { get }

  /// Called before a dial. False: no credential is available at present.
  func prepareToDial() -> Bool
  /// The link has opened.
  func opened()
  func received(_ bytes: UnsafeRawBufferPointer) -> AfterReceiving
  /// The link has closed, or was never opened. The context has no link any more.
  func closed(_ reason: LinkClosure) -> ConversationEnd
  /// Called after the end was reported. A lane may move notifications to lanes that can send them
  /// sooner.
  func handOver(from lane: Lane)

  /// See ``Lane/renewConnection(tokens:)``.
  func renewConnection(tokens: ProviderTokenSource?)

  /// The open connection takes nothing new, and is closed when everything in flight on it has its
  /// outcome.
  func finish()
  /// The app is paused or suspended, or continues. While it is halted, an open connection takes
  /// nothing new, and is closed when everything in flight on it has its outcome.
  func halt(_ isHalted: Bool)

  /// A turn begins. ``step(published:)`` follows, once or more.
  func turnBegins()
  /// Does the next piece of work.
  ///
  /// - Parameter published: the ring's published position, read before this call.
  func step(published: UInt64) -> LaneStep
  /// The ring is empty and has freed its memory.
  func becameIdle()
}

extension Conversation {
  func handOver(from lane: Lane) {}
  func turnBegins() {}
  func becameIdle() {}
}

/// What a lane does after a step of its conversation.
enum LaneStep {
  /// Take the next step.
  case proceed
  /// A full batch was written: take the next step, if the turn is not over.
  case wrote
  /// Continue in another turn.
  case yield
  /// Connect, if the app allows it.
  case dial
  /// Nothing to do until an event, or until this moment.
  case sleep(until: Instant?)
}

enum AfterReceiving {
  /// There is nothing to do yet.
  case waitForMore
  /// The input may allow more work: take a turn.
  case takeTurn
  /// The conversation is over.
  case close
}

/// How a connection ended, for the pool and for messages.
struct ConversationEnd {
  let ending: PoolMachine.Ending
  let cause: String
  let evidence: ProgressWatchdog.Evidence
  let retryAt: Instant?
}
