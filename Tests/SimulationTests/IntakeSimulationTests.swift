internal import PushGateway
internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushEngine

/// What was acknowledged is sent, whether or not the gateway is there, and however often the
/// process is killed.
@Suite struct IntakeSimulationTests {
  @Test("acknowledged = accounted: the gateway goes away, the app is paused, the process is killed")
  func acknowledged() {
    var storedCount = 0
    for seed in Seeds.intakes {
      let simulation = IntakeSimulation(seed: seed)
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
      storedCount += simulation.storedCount
    }
    #expect(storedCount > 0, "no run has used its reservoir")
  }

  @Test(
    "mistakes that are planted in the intake and its journal are found",
    arguments: [EngineJournalOptions.PlantedMistake.acknowledgedAtOnce, .unsettledIsReleased])
  func plantedMistakesAreFound(mistake: EngineJournalOptions.PlantedMistake) {
    let found = (1...2_000).first { !IntakeSimulation(seed: $0, plantedMistake: mistake).run().isEmpty }
    #expect(found != nil)
  }

  @Test("with a gateway that never answers, everything is acknowledged, and memory returns afterwards")
  func absentGateway() {
    var plan = IntakeSimulation.Plan(seed: 3)
    plan.outage = NetworkFaults.Outage(kind: .unreachable, after: .zero, duration: .seconds(3600))
    plan.lives = []
    plan.storeFails = [:]
    plan.tokenCount = 5_000
    let simulation = IntakeSimulation(plan)
    #expect(simulation.run() == [])
    #expect(simulation.storedCount > 4_000)
  }
}
