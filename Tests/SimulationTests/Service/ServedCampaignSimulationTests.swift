internal import PushWire
internal import Testing

@testable internal import PushService

/// The audience and the rate of a service's campaigns, where they meet the engine.
@Suite struct ServedCampaignSimulationTests {
  @Test("each stored device gets a campaign once: in parts, at a rate, around quiet hours, through crashes")
  func account() {
    for seed in Seeds.servedCampaigns {
      let simulation = ServedCampaignSimulation(seed: seed)
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
    }
  }

  @Test("two nodes share it, each after the other was killed: whoever may have got it twice is counted")
  func shared() {
    for seed in Seeds.sharedCampaigns {
      let simulation = ServedCampaignSimulation(seed: seed, isShared: true)
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
    }
  }

  @Test("planted mistakes of a segment are found", arguments: SegmentMachine.PlantedMistake.allCases)
  func segmentMistakes(mistake: SegmentMachine.PlantedMistake) {
    let found = (1...2_000 as ClosedRange<UInt64>).contains { seed in
      var plan = ServedCampaignSimulation.Plan(seed: seed, isShared: true)
      plan.hurry()
      return !ServedCampaignSimulation(plan, segmentMistake: mistake).run().isEmpty
    }
    #expect(found, "\(mistake) went unnoticed by the simulation")
  }

  @Test("planted mistakes are found", arguments: CampaignController.PlantedMistake.allCases)
  func plantedMistakes(mistake: CampaignController.PlantedMistake) {
    let found = (1...2_000).contains { !ServedCampaignSimulation(seed: $0, plantedMistake: mistake).run().isEmpty }
    #expect(found, "\(mistake) went unnoticed by the simulation")
  }
}
