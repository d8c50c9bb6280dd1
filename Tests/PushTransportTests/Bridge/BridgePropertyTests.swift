internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@Suite("The bridge's session, with clients that resend")
struct BridgePropertyTests {
  /// What went wrong in one run; empty if nothing did.
  private func run(
    seed: UInt64, kind: ResendingClient.Kind, mistake: BridgeWindow.PlantedMistake? = nil, isForgetful: Bool = false
  ) -> (findings: [String], recognised: Int, reported: Int) {
    var generator = SeededGenerator(seed: seed)
    var settings = BridgeSession.Settings()
    settings.window.frameCount = Int.random(in: 1...60, using: &generator)
    settings.window.byteCount = Int.random(in: 100...4000, using: &generator)
    settings.window.plantedMistake = mistake
    var bridge = BridgeModel(settings, mistake: isForgetful ? .forgets : nil)

    var items: [ResendingClient.Item] = []
    // Some are equal on purpose, where no connection breaks: otherwise the next equal one counts as
    // the resend.
    let hasCopies = generator.chance(50)
    for index in 0..<Int.random(in: 1...120, using: &generator) {
      let isCopy = hasCopies && generator.chance(10) && !items.isEmpty
      guard !isCopy, let token = TokenBytes(bytes: generator.bytes(32)) else {
        items.append(items[Int.random(in: 0..<items.count, using: &generator)])
        continue
      }
      items.append(
        ResendingClient.Item(
          token: token, payload: Array("{\"aps\":{\"badge\":\(index)}}".utf8),
          expiration: generator.chance(50) ? 0 : UInt32(1_800_000_000 + index)))
    }
    let badShare = [0, 3, 20].randomElement(using: &generator) ?? 0
    var bad: [TokenBytes: GatewayStatus] = [:]
    for item in Set(items) where generator.chance(badShare) {
      bad[item.token] = [.invalidToken, .processingError, .invalidPayloadSize].randomElement(using: &generator)
    }
    var client = ResendingClient(kind, items)
    drive(&client, &bridge, bad, &generator, cutsConnections: mistake == nil && !hasCopies)

    var findings: [String] = []
    let expectedGood = Dictionary(items.filter { bad[$0.token] == nil }.map { ($0.token, 1) }, uniquingKeysWith: +)
    let delivered = Dictionary(
      bridge.forwarded.filter { bad[$0.token] == nil }.map { ($0.token, 1) }, uniquingKeysWith: +)
    if delivered != expectedGood {
      findings.append("delivered \(delivered.values.reduce(0, +)) of \(expectedGood.values.reduce(0, +)) good ones")
    }
    let expectedBad = Dictionary(items.filter { bad[$0.token] != nil }.map { ($0.token, 1) }, uniquingKeysWith: +)
    findings += client.problems(expectedBad)
    if client.reported.contains(where: { bad[$0.item.token] != $0.status }) { findings.append("a wrong status") }
    return (findings, bridge.recognisedCount, client.reported.count)
  }

  /// Random steps until the client has nothing left to do.
  private func drive(
    _ client: inout ResendingClient, _ bridge: inout BridgeModel, _ bad: [TokenBytes: GatewayStatus],
    _ generator: inout SeededGenerator, cutsConnections: Bool
  ) {
    var connection = bridge.connect("client")
    client.connected()
    // Indices of what was forwarded.
    var unanswered: [Int] = []
    var unsent: [UInt8] = []
    var hasClosedItsSide = false
    // Of this connection, and before time last passed by more than a moment.
    var (written, past) = (0, 0)
    // Since then the bridge has heard nothing of it.
    var silentSince = bridge.now
    func connect(_ client: inout ResendingClient, _ bridge: inout BridgeModel, hasSent: Bool) {
      if hasSent { silentSince = bridge.now }
      connection = bridge.connect("client")
      client.connected()
      (unsent, hasClosedItsSide, written, past) = ([], false, 0, 0)
    }
    var steps = 0
    while steps < 100_000 {
      steps += 1
      let isQuiet = unanswered.isEmpty && unsent.isEmpty && !client.hasWork
      if isQuiet { bridge.deliver(connection) }
      // The client reads late: it may write a lot meanwhile.
      if let held = bridge.connections[connection]?.isEnded, held, isQuiet || generator.chance(20) {
        let hasSent = bridge.taken(connection).count > 0
        let response = bridge.connections.removeValue(forKey: connection)?.response
        // Everything was accepted.
        if hasClosedItsSide, response == nil { return }
        client.read(response)
        if client.isConfirmed, !client.hasWork || client.kind == .pushy && unanswered.isEmpty {
          if !client.hasWork { return }
        }
        connect(&client, &bridge, hasSent: hasSent)
        continue
      }
      if isQuiet, bridge.connections[connection]?.isEnded == false { return }
      switch Int.random(in: 0..<100, using: &generator) {
      case 0..<40:
        if unsent.isEmpty { unsent = client.write(Int.random(in: 1...20, using: &generator)) }
        if bridge.wantsBytes(connection) {
          let count = min(unsent.count, Int.random(in: 1...400, using: &generator))
          let known = bridge.forwarded.count
          bridge.receive(Array(unsent.prefix(count)), connection)
          unanswered += known..<bridge.forwarded.count
          unsent.removeFirst(count)
          written += count
        }
      case 40..<80:
        guard !unanswered.isEmpty else { break }
        let place = Int.random(in: 0..<unanswered.count, using: &generator)
        let index = unanswered.remove(at: place)
        let entry = bridge.forwarded[index]
        bridge.answer(entry.line, bad[entry.token].map { .refused($0) } ?? .accepted)
      case 80..<95: bridge.deliver(connection)
      case 95: bridge.sweep()
      case 96:
        // The bound on the wait passes, or the service ends. A client reads an error response, and
        // begins to send again, within less than a minute.
        guard let state = bridge.connections[connection], !state.isEnded,
          state.session.frameCount > 0 || bridge.now.since(silentSince) < .seconds(20)
        else { break }
        bridge.now = bridge.now + .seconds(31)
        past = written
        bridge.woken(connection)
      case 97 where cutsConnections: bridge.end(connection)
      case 98 where cutsConnections:
        if bridge.connections[connection]?.isEnded == false {
          let taken = bridge.taken(connection)
          bridge.cut(connection)
          client.broke(taken, past: past)
          connect(&client, &bridge, hasSent: taken.count > 0)
        }
      case 99 where cutsConnections && !hasClosedItsSide && !client.hasWork && unsent.isEmpty:
        guard bridge.connections[connection]?.isEnded == false else { break }
        hasClosedItsSide = true
        bridge.peerClosed(connection)
      default: bridge.now = bridge.now + .milliseconds(10)
      }
    }
  }

  @Test("each good one is delivered once, each bad one is reported once", arguments: ResendingClient.Kind.allCases)
  func exactlyOnce(_ kind: ResendingClient.Kind) {
    let first = SeededGenerator.freshSeed() >> 1
    var (recognised, reported) = (0, 0)
    for seed in first..<first + 300 {
      let result = run(seed: seed, kind: kind)
      #expect(result.findings.isEmpty, "seed \(seed): \(result.findings)")
      recognised += result.recognised
      reported += result.reported
    }
    #expect(recognised > 300, "seeds from \(first)")
    #expect(reported > 300, "seeds from \(first)")
  }

  @Test("planted mistakes are found", arguments: [BridgeWindow.PlantedMistake.answersEarly])
  func plantedMistakes(_ mistake: BridgeWindow.PlantedMistake) {
    let found = (0..<300 as Range<UInt64>).contains { seed in
      ResendingClient.Kind.allCases.contains { !run(seed: seed, kind: $0, mistake: mistake).findings.isEmpty }
    }
    #expect(found)
  }

  @Test("a bridge that does not recognise what it forwarded is found")
  func forgetfulness() {
    #expect((0..<100 as Range<UInt64>).contains { !run(seed: $0, kind: .pushy, isForgetful: true).findings.isEmpty })
  }
}
