internal import Foundation
internal import PushStore
internal import Support
internal import Testing

/// The connection to the database is cut at each message in turn, before the server has it or
/// before its answer arrives. Every use case is carried out once all the same.
@Suite("The store when its connection is cut", .serialized)
struct CutConnectionTests {
  /// A program between the store and its server that cuts one connection.
  private struct Proxy {
    private static let script = """
      import asyncio, sys
      listen, upstream, last, keeps = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "after"
      state = {"count": 0}
      async def serve(reader, writer):
        above, below = await asyncio.open_unix_connection(upstream)
        cut = asyncio.Event()
        def close():
          writer.close()
          below.close()
        async def up():
          isFirst = True
          while data := await reader.read(1 << 16):
            if not isFirst:
              state["count"] += 1
              if state["count"] == last:
                if not keeps: return close()
                cut.set()
            isFirst = False
            below.write(data)
            await below.drain()
          close()
        async def down():
          while data := await above.read(1 << 16):
            if cut.is_set(): return close()
            writer.write(data)
            await writer.drain()
          close()
        await asyncio.gather(up(), down(), return_exceptions=True)
      async def main():
        server = await asyncio.start_unix_server(serve, listen)
        print("ready", flush=True)
        while True: await asyncio.sleep(3600)
      import os, signal
      def ended(*_):
        print(state["count"], flush=True)
        # An exception in the middle of the loop could keep it from ending.
        os._exit(0)
      signal.signal(signal.SIGTERM, ended)
      asyncio.run(main())
      """

    private let process: ChildProcess

    init(_ folder: String, _ upstream: String, cutting message: Int, afterwards: Bool) async throws {
      process = try ChildProcess(
        [
          "-c", Self.script, folder + "/.s.PGSQL.5432", upstream, "\(message)", afterwards ? "after" : "before",
        ], program: "python3")
      try #require(await process.line(0) == "ready", "\(process.errors)")
    }

    /// - Returns: how many messages there were.
    func end() async -> Int {
      process.send(SIGTERM)
      return Int(await process.ending().output.split(separator: "\n").last ?? "") ?? 0
    }
  }

  /// Takes every step, each once.
  ///
  /// - Returns: how many messages the server got.
  private static func attempt(cutting message: Int, afterwards: Bool) async throws -> Int {
    let place = try StorePlace(.postgreSQL)
    let socket = try #require(place.socket)
    let proxy = try await Proxy(place.folder.path(""), socket, cutting: message, afterwards: afterwards)
    let store = try place.open(through: place.folder.path(""))
    for step in StoreSteps.all {
      try await step.perform(store)
      #expect(try await step.isDone(store), "message \(message): \(step.name)")
      if step.name == "outcomes of a run" {
        let counts = try await store.outcomes(of: [StoredLines(run: StoreSteps.run, lines: 1...21)])
        #expect(counts.copies == 2, "message \(message)")
        #expect(try await store.goneDevices(app: "news", after: 0, limit: 10).count == 1, "message \(message)")
      }
    }
    try store.close()
    return await proxy.end()
  }

  /// Each ninth, from a random one on, so that many runs try them all; with
  /// `CARILLON_EVERY_FAULT=1` each of them.
  @Test("each message is lost, or its answer is", arguments: [false, true])
  func everyMessage(afterwards: Bool) async throws {
    let count = try await Self.attempt(cutting: 0, afterwards: afterwards)
    #expect(count > 50)
    let isWhole = !(ProcessInfo.processInfo.environment["CARILLON_EVERY_FAULT"] ?? "").isEmpty
    var random = SeededGenerator.fresh()
    let first = isWhole ? 1 : Int.random(in: 1...9, using: &random)
    for message in stride(from: first, through: count, by: isWhole ? 1 : 9) {
      do {
        _ = try await Self.attempt(cutting: message, afterwards: afterwards)
      } catch {
        Issue.record(error, "message \(message)")
      }
    }
  }
}
