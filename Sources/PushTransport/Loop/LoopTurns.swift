internal import Glibc
internal import NIOCore
internal import NIOPosix
internal import PushWire

/// Runs long work on an event loop in turns with the loop's sockets.
///
/// A NIO event loop runs all its jobs, including those added meanwhile, before it looks at its
/// sockets again. Lanes that send and then request their next turn would keep it from reading
/// answers and completing handshakes while there is anything to send. So jobs of this kind run for
/// one millisecond. The rest of them waits for a byte that the loop sends to itself, because it
/// receives that byte only by looking at all sockets.
///
/// Apps that are ready at the same time share the loop by their weights: `TurnOrder`.
///
/// Used on the event loop only, except for init.
final class LoopTurns: @unchecked Sendable {
  // Sync: every member is used on `eventLoop` only; init only stores.
  private let eventLoop: any EventLoop
  /// Which flow's job is next. The flow of jobs without a ``TurnShare`` is the first.
  private var order = TurnOrder()
  private var flows: [Flow] = []
  /// Until this time, jobs may run without a look at the sockets.
  private var sliceEnd = NIODeadline.uptimeNanoseconds(0)
  /// ``runJobs()`` is scheduled or running.
  private var isUnderWay = false
  private var signal = Signal.none

  /// Jobs of one share, in order.
  private struct Flow {
    weak var share: TurnShare?
    var waiting: [TurnShare.Job] = []
    var nextWaiting = 0
    /// Its share is gone, and its number may be used again.
    var isFree = false

    mutating func takeNext() -> TurnShare.Job {
      let job = waiting[nextWaiting]
      nextWaiting += 1
      if nextWaiting == waiting.count {
        waiting.removeAll(keepingCapacity: true)
        nextWaiting = 0
      } else if nextWaiting >= 256 {
        waiting.removeFirst(nextWaiting)
        nextWaiting = 0
      }
      return job
    }
  }

  private enum Signal {
    case none
    /// The channel is being registered.
    case preparing
    case ready(descriptor: CInt, any Channel)
    /// The channel could not be made. Jobs of this kind then run like all others.
    case failed
  }

  private static let slice = TimeAmount.milliseconds(1)
  /// After this time without a job, the loop has looked at its sockets.
  private static let rest = TimeAmount.microseconds(200)

  init(_ eventLoop: any EventLoop) {
    self.eventLoop = eventLoop
    flows = [Flow()]
    _ = order.add(weight: 1)
  }

  /// Runs the job in the present slice if that has not ended, otherwise after the sockets. Never
  /// runs it inside this call, because the caller may be in the middle of an operation.
  ///
  /// - Parameter share: whose job it is; nil: it belongs to no flow.
  func take(_ share: TurnShare?, _ job: @escaping TurnShare.Job) {
    let flow = share.map(flow) ?? 0
    flows[flow].waiting.append(job)
    order.ready(flow)
    guard !isUnderWay else { return }
    isUnderWay = true
    let now = NIODeadline.now()
    if now > sliceEnd + Self.rest { sliceEnd = now + Self.slice }
    guard now < sliceEnd else { return lookAtSockets() }
    eventLoop.execute { self.runJobs() }
  }

  private func flow(of share: TurnShare) -> Int {
    let weight = share.weight
    if let flow = share.flow {
      if share.flowWeight != weight {
        share.flowWeight = weight
        order.change(flow, weight: weight)
      }
      return flow
    }
    // Shares of apps that are gone make room first.
    for index in flows.indices.dropFirst() where flows[index].share == nil && !flows[index].isFree {
      flows[index].isFree = true
      order.remove(index)
    }
    let flow = order.add(weight: weight)
    share.flowWeight = weight
    if flow == flows.count { flows.append(Flow()) }
    flows[flow] = Flow(share: share)
    share.flow = flow
    return flow
  }

  private func lookAtSockets() {
    switch signal {
    case .ready(let descriptor, _):
      var byte: UInt8 = 0
      if unsafe Glibc.write(descriptor, &byte, 1) != 1 { eventLoop.execute { self.runSlice() } }
    case .none:
      prepare()
      eventLoop.execute { self.runSlice() }
    case .preparing, .failed: eventLoop.execute { self.runSlice() }
    }
  }

  private func runSlice() {
    sliceEnd = .now() + Self.slice
    runJobs()
  }

  private func runJobs() {
    while let flow = order.next() {
      let byteCount = flows[flow].takeNext()()
      order.ran(flow, byteCount: byteCount)
      if NIODeadline.now() >= sliceEnd { break }
    }
    if order.isEmpty { isUnderWay = false } else { lookAtSockets() }
  }

  /// Registers one end of a pipe with the loop.
  private func prepare() {
    signal = .preparing
    var ends: [CInt] = [-1, -1]
    guard unsafe pipe(&ends) == 0 else {
      signal = .failed
      return
    }
    let (reading, writing) = (ends[0], ends[1])
    for end in ends {
      _ = fcntl(end, F_SETFD, FD_CLOEXEC)
      _ = fcntl(end, F_SETFL, O_NONBLOCK)
    }
    let handler = NIOLoopBound(Receiver(self), eventLoop: eventLoop)
    NIOPipeBootstrap(group: eventLoop)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(handler.value) }
      }
      .takingOwnershipOfDescriptor(input: reading)
      .whenComplete { result in
        switch result {
        case .success(let channel):
          self.signal = .ready(descriptor: writing, channel)
          channel.closeFuture.whenComplete { _ in
            self.signal = .failed
            close(writing)
          }
        case .failure:
          self.signal = .failed
          close(reading)
          close(writing)
        }
      }
  }

  private final class Receiver: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private weak var turns: LoopTurns?

    init(_ turns: LoopTurns) { self.turns = turns }

    /// Runs the slice after the other sockets that are ready. Jobs run inside this call would come
    /// before them.
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      let turns = turns
      context.eventLoop.assumeIsolated().execute { turns?.runSlice() }
    }
  }
}
