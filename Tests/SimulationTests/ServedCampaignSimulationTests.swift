internal import PushEngine
internal import Testing

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

  @Test("a journal whose positions run ahead of what was taken in is found")
  func plantedMistake() {
    let found = (1...200).contains {
      !ServedCampaignSimulation(seed: $0, plantedMistake: .positionsRunAhead).run().isEmpty
    }
    #expect(found)
  }
}
