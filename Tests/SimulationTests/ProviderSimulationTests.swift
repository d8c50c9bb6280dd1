internal import PushEngine
internal import PushWire
internal import Testing

/// Thousands of campaigns over HTTP/2, each under its own seed. See ``Seeds``.
@Suite struct ProviderSimulationTests {
  @Test("over HTTP/2, with any faults, the account equals what the service accepted")
  func accountEqualsTruth() {
    for seed in Seeds.providers {
      let scenario = Scenario.http2(seed: seed)
      let problems = Simulation(scenario: scenario).run()
      #expect(problems.isEmpty, "\(scenario): \(problems.prefix(5).joined(separator: "; "))")
    }
  }

  @Test("over HTTP/2, with crashes, lost writes and failing disks, the account of all processes equals the truth")
  func accountSurvivesCrashes() {
    for seed in Seeds.providersThroughCrashes {
      let simulation = CrashSimulation(Scenario.http2(seed: seed))
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation.description): \(problems.prefix(5).joined(separator: "; "))")
    }
  }

  @Test(
    "the simulation finds mistakes that are planted in the HTTP/2 sender",
    arguments: RequestPolicy.PlantedMistake.allCases.filter { $0 != .keepsSickConnection })
  func plantedMistakesAreFound(mistake: RequestPolicy.PlantedMistake) {
    let found = (1...400).contains { seed in
      var scenario = Scenario.http2(seed: UInt64(seed))
      guard case .http2(var settings) = scenario.configuration.transport else { return false }
      settings.policy.plantedMistake = mistake
      if mistake == .lateAlertIsRefusal {
        // Responses are fast, so an alert between a request and its response is rare among the
        // usual faults.
        scenario.network.lateAlertPerMille = 500
        scenario.network.lateAlertDelay = 5...200
      }
      scenario.configuration.transport = .http2(settings)
      return !Simulation(scenario: scenario).run().isEmpty
    }
    #expect(found, "\(mistake) went unnoticed by the simulation")
  }

  @Test(
    "the simulation of crashes finds mistakes that are planted in the journal over HTTP/2, where nothing is rewound",
    arguments: EngineJournalOptions.PlantedMistake.ofJournal.filter { $0 != .rewindKeepsIntent })
  func plantedJournalMistakesAreFound(mistake: EngineJournalOptions.PlantedMistake) {
    let found = (1...400).contains {
      !CrashSimulation(Scenario.http2(seed: UInt64($0)), plantedMistake: mistake).run().isEmpty
    }
    #expect(found, "\(mistake) went unnoticed by the simulation")
  }

  @Test("an app over HTTP/2 that was shut down is deallocated")
  func nothingIsRetained() {
    for seed in UInt64(1)...40 {
      let retained = Simulation(scenario: Scenario.http2(seed: seed)).retained()
      #expect(retained.isEmpty, "seed \(seed): \(retained)")
    }
  }

  @Test("the same seed gives the same run over HTTP/2")
  func runsAreRepeatable() {
    for seed in UInt64(1)...20 {
      let first = Simulation(scenario: Scenario.http2(seed: seed)).trace()
      let second = Simulation(scenario: Scenario.http2(seed: seed)).trace()
      #expect(first == second, "seed \(seed)")
    }
  }
}
