internal import PushTransport
internal import PushWire

/// What a lane and its gateway say to each other over one protocol: it owns a machine, which decides,
/// and a packer or session, which makes bytes.
///
/// ``Lane`` owns ring, link and timer, and calls it on its loop: once per turn, per read of the socket,
/// per connection, never once per notification. So the calls through this protocol cost nothing that
/// can be measured, and both implementations stay concrete inside.
protocol Conversation: AnyObject {
  /// True when no connection is open, opening or closing.
  var isDisconnected: Bool { get }
  /// The connection can carry notifications.
  var isOpen: Bool { get }
  /// The last connection was left because there was nothing to do.
  var endedIdle: Bool { get }
  /// How far the lane has come for good: nothing before it will be sent again.
  var progress: UInt64 { get }

  /// Called before a dial. False: there is nothing to connect with at present.
  func prepareToDial() -> Bool
  /// The link has opened. False: it is of no use and must be closed.
  func opened() -> Bool
  func received(_ bytes: UnsafeRawBufferPointer) -> AfterReceiving
  /// The link has closed, or was never opened. The context has no link any more.
  func closed(_ reason: LinkClosure) -> ConversationEnd
  /// Called after the end was reported: a lane may give to others what it cannot send soon.
  func handOver(from lane: Lane)

  /// See ``Lane/renewConnection(tokens:)``.
  func renewConnection(tokens: ProviderTokenSource?)

  /// A turn begins: ``step(published:)`` follows, once or more.
  func turnBegins()
  /// Does the next thing that is to be done.
  ///
  /// - Parameter published: of the ring, seen before this call.
  func step(published: UInt64) -> LaneStep
  /// The ring is empty and has given its memory back.
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
  /// Go on in another turn.
  case yield
  /// Connect, when the app allows it.
  case dial
  /// Nothing to do before something happens, or before this moment.
  case sleep(until: Instant?)
}

enum AfterReceiving {
  /// There is nothing to do yet.
  case waitForMore
  /// What came may have made something possible: take a turn.
  case takeTurn
  /// The conversation is over.
  case close
}

/// How a connection ended, for the pool and for people.
struct ConversationEnd {
  let ending: PoolMachine.Ending
  let cause: String
  let retryAt: Instant?
}
