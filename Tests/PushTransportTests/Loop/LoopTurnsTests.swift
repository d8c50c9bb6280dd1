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
}
