internal import NIOCore
internal import NIOPosix
internal import Synchronization
internal import Testing

@testable internal import PushTransport

@Suite("Turns on an event loop", .timeLimit(.minutes(20)))
struct LoopTurnsTests {
  private static let jobCount = 100

  /// Records how many jobs had run when the first bytes arrived.
  private final class Receiver: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer

    let jobsRun = Atomic(0)
    let jobsRunAtArrival = Atomic(-1)

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      jobsRunAtArrival.store(jobsRun.load(ordering: .relaxed), ordering: .relaxed)
    }
  }

  @Test("jobs that are added all at once leave the sockets their turn")
  func sockets() async throws {
    try await withLoops(1) { group in
      let loop = group.loops[0]
      let receiver = Receiver()
      let server = try await ServerBootstrap(group: group.eventLoopGroup)
        .childChannelInitializer { child in
          child.eventLoop.makeCompletedFuture { try child.pipeline.syncOperations.addHandler(receiver) }
        }
        .bind(host: "127.0.0.1", port: 0).get()
      let address = try #require(server.localAddress)
      let client = try await ClientBootstrap(group: group.eventLoopGroup).connect(to: address).get()
      try await confirmation("every job has run", expectedCount: Self.jobCount) { ran in
        let last = loop.eventLoop.makePromise(of: Void.self)
        try await loop.eventLoop.submit {
          // The bytes are in the socket from here on.
          client.writeAndFlush(ByteBuffer(string: "hello"), promise: nil)
          for number in 1...Self.jobCount {
            loop.takeTurn(nil) {
              let end = NIODeadline.now() + .milliseconds(1)
              while NIODeadline.now() < end {}
              receiver.jobsRun.add(1, ordering: .relaxed)
              ran()
              if number == Self.jobCount { last.succeed() }
              return 0
            }
          }
        }.get()
        try await last.futureResult.get()
      }
      let atArrival = receiver.jobsRunAtArrival.load(ordering: .relaxed)
      // The first turns pass while the loop's signal is being set up.
      #expect((0..<Self.jobCount / 4).contains(atArrival), "read after \(atArrival) jobs")
      try await client.close().get()
      try await server.close().get()
    }
  }

  /// Jobs that always want their next turn, as lanes with enough to send do.
  private final class Race: Sendable {
    private let loop: NIOLoop
    private let ended: EventLoopPromise<Void>
    let byteCounts: Mutex<[Int]>

    static let turnByteCount = 100_000
    static let limit = 4_000 * turnByteCount

    init(_ loop: NIOLoop, count: Int) {
      self.loop = loop
      ended = loop.eventLoop.makePromise(of: Void.self)
      byteCounts = Mutex(Array(repeating: 0, count: count))
    }

    func takeTurn(_ index: Int, of share: TurnShare) {
      loop.takeTurn(share) { [self] in
        let total = byteCounts.withLock { counts in
          counts[index] += Self.turnByteCount
          return counts.reduce(0, +)
        }
        if total < Self.limit { takeTurn(index, of: share) } else if total == Self.limit { ended.succeed() }
        return Self.turnByteCount
      }
    }

    func end() async throws -> [Int] {
      try await ended.futureResult.get()
      return byteCounts.withLock { $0 }
    }
  }

  @Test("apps with more to send than the loop manages send by their weights, whatever their jobs")
  func weights() async throws {
    try await withLoops(1) { group in
      let loop = group.loops[0]
      let apps = [(weight: 1, lanes: 4), (weight: 3, lanes: 1), (weight: 3, lanes: 2)].map {
        (shares: TurnShares(weight: $0.weight), lanes: $0.lanes)
      }
      // The last app's weight is changed before it counts.
      apps[2].shares.replace(weight: 4)
      let race = Race(loop, count: apps.count)
      try await loop.eventLoop.submit {
        for (index, app) in apps.enumerated() {
          for _ in 0..<app.lanes { race.takeTurn(index, of: app.shares.share(of: loop)) }
        }
      }.get()
      let counts = try await race.end()
      for (index, share) in [1.0 / 8, 3.0 / 8, 4.0 / 8].enumerated() {
        let found = Double(counts[index]) / Double(Race.limit)
        #expect(abs(found - share) < 0.02, "\(counts)")
      }
    }
  }
}
