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

  @Test("planted mistakes are found", arguments: CampaignController.PlantedMistake.allCases)
  func plantedMistakes(mistake: CampaignController.PlantedMistake) {
    let found = (1...2_000).contains { !ServedCampaignSimulation(seed: $0, plantedMistake: mistake).run().isEmpty }
    #expect(found, "\(mistake) went unnoticed by the simulation")
  }
}
