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

  @Test(
    "each operation of the disk fails, also while a journal is recovered: nothing that was acknowledged is lost",
    arguments: [false, true], [0, 1])
  func errorLoop(isLasting: Bool, life: Int) {
    var count = 0
    var simulation: IntakeSimulation
    repeat {
      var plan = IntakeSimulation.Plan(seed: 7)
      (plan.tokenCount, plan.checkpointByteCount, plan.settlementDelay) = (400, 2_000, .zero)
      (plan.storeFails, plan.outage, plan.hasPauses, plan.rateLimit) = ([:], nil, false, nil)
      plan.lives = life == 0 ? [3_000_000] : [400, 3_000_000]
      plan.diskFails = (life, count, isLasting)
      simulation = IntakeSimulation(plan)
      let problems = simulation.run()
      #expect(problems.isEmpty, "operation \(count): \(problems.prefix(3))")
      count += 1
    } while simulation.disk.hasFailed && count < 5_000
    #expect(count > 100)
    #expect(count < 5_000)
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
