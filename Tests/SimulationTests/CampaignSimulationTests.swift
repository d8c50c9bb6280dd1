internal import PushEngine
internal import PushWire
internal import Support
internal import Testing

/// The whole engine under one seed, with simulated network, gateway and time.
@Suite struct CampaignSimulationTests {
  @Test("with any faults, the account equals what the gateway accepted")
  func accountEqualsTruth() {
    for seed in Seeds.campaigns {
      let scenario = Scenario(seed: seed)
      let problems = Simulation(scenario: scenario).run()
      #expect(problems.isEmpty, "\(scenario): \(problems.prefix(5).joined(separator: "; "))")
    }
  }

  @Test("with crashes, lost writes and failing disks, the account of all processes equals what the gateway accepted")
  func accountSurvivesCrashes() {
    for seed in Seeds.campaignsThroughCrashes {
      let simulation = CrashSimulation(seed: seed)
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation.description): \(problems.prefix(5).joined(separator: "; "))")
    }
  }

  @Test("the simulation finds mistakes that are planted in the sender", arguments: LanePolicy.PlantedMistake.allCases)
  func plantedMistakesAreFound(mistake: LanePolicy.PlantedMistake) {
    let found = (1...400).contains { seed in
      var scenario = Scenario(seed: UInt64(seed))
      scenario.configuration.policy.plantedMistake = mistake
      return !Simulation(scenario: scenario).run().isEmpty
    }
    #expect(found, "\(mistake) went unnoticed by the simulation")
  }

  @Test(
    "the simulation of crashes finds mistakes that are planted in the journal",
    arguments: EngineJournalOptions.PlantedMistake.ofJournal)
  func plantedJournalMistakesAreFound(mistake: EngineJournalOptions.PlantedMistake) {
    let found = (1...400).contains { !CrashSimulation(seed: UInt64($0), plantedMistake: mistake).run().isEmpty }
    #expect(found, "\(mistake) went unnoticed by the simulation")
  }

  @Test("an app that was shut down is deallocated")
  func nothingIsRetained() {
    for seed in UInt64(1)...40 {
      let retained = Simulation(scenario: Scenario(seed: seed)).retained()
      #expect(retained.isEmpty, "seed \(seed): \(retained)")
    }
  }

  @Test("the same seed gives the same run")
  func runsAreRepeatable() {
    for seed in UInt64(1)...20 {
      let first = Simulation(scenario: Scenario(seed: seed)).trace()
      let second = Simulation(scenario: Scenario(seed: seed)).trace()
      #expect(first == second, "seed \(seed)")
    }
  }
}
