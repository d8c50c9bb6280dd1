internal import Testing

@testable internal import PushService

/// What was acknowledged is sent, also if the node that took it in is lost.
@Suite struct SharedIntakeSimulationTests {
  @Test("acknowledged = accounted on two nodes: what a lost one had taken in, the other one sends")
  func acknowledged() {
    var carriedCount = 0
    for seed in Seeds.sharedIntakes {
      let simulation = SharedIntakeSimulation(seed: seed)
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
      carriedCount += simulation.carriedCount
    }
    #expect(carriedCount > 0, "nobody has sent anything for another node")
  }

  @Test("a process that has lost answers of the store sends nothing of its own again")
  func lostAnswers() {
    for seed in Seeds.sharedIntakes {
      var plan = SharedIntakeSimulation.Plan(seed: seed)
      plan.liveOnce()
      let simulation = SharedIntakeSimulation(plan)
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
      #expect(simulation.carriedCount == 0, "\(simulation)")
    }
  }

  @Test("planted mistakes are found", arguments: IntakeCarrier.PlantedMistake.allCases)
  func plantedMistakes(mistake: IntakeCarrier.PlantedMistake) {
    let found = (1...2_000).contains { !SharedIntakeSimulation(seed: $0, plantedMistake: mistake).run().isEmpty }
    #expect(found, "\(mistake) went unnoticed by the simulation")
  }
}
