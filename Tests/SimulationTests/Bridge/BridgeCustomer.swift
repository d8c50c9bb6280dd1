internal import PushTransport
internal import PushWire
internal import Support

/// A provider that sends through the bridge, and outlasts its processes.
final class BridgeCustomer: @unchecked Sendable {
  // Sync: used on the simulated loop only.
  let name: String
  private var client: ResendingClient
  private var random: SeededGenerator
  private var connection: UInt64?
  private var unsent: [UInt8] = []
  /// Of 1000 steps, those at which the network ends the connection.
  private let cutPerMille: Int
  private(set) var isDone = false

  init(_ name: String, _ kind: ResendingClient.Kind, _ items: [ResendingClient.Item], cutPerMille: Int, seed: UInt64) {
    self.name = name
    self.cutPerMille = cutPerMille
    client = ResendingClient(kind, items)
    random = SeededGenerator(seed: seed)
  }

  var reported: [(item: ResendingClient.Item, status: GatewayStatus)] { client.reported }
  var isConnected: Bool { connection != nil }

  func run(_ process: BridgeProcess) {
    guard !isDone else { return }
    let wasIdle = step(process)
    let delay = wasIdle ? Int.random(in: 50...500, using: &random) : Int.random(in: 0...20, using: &random)
    _ = process.loop.schedule(at: process.loop.now + .milliseconds(delay)) { [weak self, weak process] in
      if let self, let process { run(process) }
    }
  }

  /// The process is gone; a response that it wrote arrives.
  func lost(_ process: BridgeProcess) {
    guard let connection else { return }
    client.read(process.hasEnded(connection) ? process.read(connection) : nil)
    self.connection = nil
  }

  /// Returns whether nothing was to be done.
  private func step(_ process: BridgeProcess) -> Bool {
    guard let connection else {
      guard process.isAccepting else { return true }
      self.connection = process.connect(name)
      client.connected()
      unsent = []
      return false
    }
    process.wake(connection)
    if process.hasEnded(connection) {
      // It reads late, and may write meanwhile.
      guard random.chance(30) else { return write(process, connection) }
      client.read(process.read(connection))
      self.connection = nil
      isDone = client.isConfirmed && !client.hasWork
      return false
    }
    if Int.random(in: 0..<1000, using: &random) < cutPerMille {
      process.cut(connection)
      client.read(nil)
      self.connection = nil
      return false
    }
    if client.kind != .pushy, !client.hasWork, unsent.isEmpty, process.pendingCount(connection) == 0 {
      // Such a client closes when it has waited for long enough.
      isDone = true
      process.cut(connection)
      self.connection = nil
      return false
    }
    return write(process, connection)
  }

  private func write(_ process: BridgeProcess, _ connection: UInt64) -> Bool {
    if unsent.isEmpty { unsent = client.write(Int.random(in: 1...50, using: &random)) }
    guard !unsent.isEmpty, process.wantsBytes(connection) else { return true }
    let count = min(unsent.count, Int.random(in: 1...4_000, using: &random))
    process.receive(Array(unsent.prefix(count)), connection)
    unsent.removeFirst(count)
    return false
  }
}
