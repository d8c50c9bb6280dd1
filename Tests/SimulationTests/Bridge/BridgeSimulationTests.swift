internal import PushTransport
internal import PushWire
internal import Testing

@testable internal import PushService

/// Old providers through the bridge and the whole engine, each run under its own seed. See
/// ``Seeds``.
@Suite struct BridgeSimulationTests {
  @Test("account = truth: each good notification arrives once, each bad one is reported once, through kill -9")
  func accountEqualsTruth() {
    var (recognised, reported) = (0, 0)
    for seed in Seeds.bridges {
      let simulation = BridgeSimulation(BridgeSimulation.Plan(seed: seed))
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
      recognised += simulation.recognisedCount
      reported += simulation.reportedCount
    }
    guard Seeds.bridges.count > 50 else { return }
    #expect(recognised > Seeds.bridges.count / 2, "hardly anything came again")
    #expect(reported > Seeds.bridges.count / 2, "hardly anything was refused")
  }

  @Test("the same on two nodes: what a lost one had forwarded, the other one sends and recognises")
  func shared() {
    var recognised = 0
    for seed in Seeds.sharedBridges {
      let simulation = BridgeSimulation(BridgeSimulation.Plan(seed: seed, hasTwoNodes: true))
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
      recognised += simulation.recognisedCount
    }
    guard Seeds.sharedBridges.count > 50 else { return }
    #expect(recognised > Seeds.sharedBridges.count / 2, "hardly anything came again")
  }

  @Test(
    "the simulation finds mistakes that are planted in the bridge of one node, and of two",
    arguments: BridgeSimulation.Plan.Mistake.allCases.flatMap { mistake in
      [false, true].filter { $0 || ![.neverLooks, .endsRunsOfOthers].contains(mistake) }.map { (mistake, $0) }
    })
  func plantedMistakesAreFound(mistake: BridgeSimulation.Plan.Mistake, hasTwoNodes: Bool) {
    let found = (1...300 as ClosedRange<UInt64>).contains { seed in
      !BridgeSimulation(BridgeSimulation.Plan(seed: seed, mistake: mistake, hasTwoNodes: hasTwoNodes)).run().isEmpty
    }
    #expect(found, "\(mistake) went unnoticed by the simulation")
  }

  @Test(
    "the simulation finds mistakes that are planted in the order of conclusions",
    arguments: [BridgeWindow.PlantedMistake.answersEarly])
  func plantedConclusionsAreFound(mistake: BridgeWindow.PlantedMistake) {
    let found = (1...200 as ClosedRange<UInt64>).contains { seed in
      var plan = BridgeSimulation.Plan(seed: seed)
      plan.settings.session.window.plantedMistake = mistake
      return !BridgeSimulation(plan).run().isEmpty
    }
    #expect(found, "\(mistake) went unnoticed by the simulation")
  }
}
