internal import PushWire
internal import Support
internal import Testing

@testable internal import PushService

/// What nodes do at the same time.
@Suite struct ClusterSimulationTests {
  @Test("nodes send one campaign together, through kills, stops and lost answers: everybody gets it, and copies count")
  func account() {
    for seed in Seeds.clusters {
      let simulation = ClusterSimulation(ClusterSimulation.Plan(seed: seed))
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
    }
  }

  @Test("nodes that end in good order leave nothing in doubt")
  func rolling() {
    for seed in Seeds.clusters {
      var plan = ClusterSimulation.Plan(seed: seed)
      plan.roll()
      let simulation = ClusterSimulation(plan)
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
      #expect(simulation.possibleDuplicateCount == 0, "\(simulation)")
    }
  }

  @Test("a store that fails now and then leaves nothing in doubt")
  func refusals() {
    for seed in Seeds.clusters {
      var plan = ClusterSimulation.Plan(seed: seed)
      (plan.events, plan.store.failuresPerMille, plan.store.lostAnswersPerMille) = ([], 20, 0)
      let simulation = ClusterSimulation(plan)
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
      #expect(simulation.possibleDuplicateCount == 0, "\(simulation)")
    }
  }

  @Test("nodes that are drained, and killed when they carry nothing, leave nothing in doubt")
  func draining() {
    for seed in Seeds.clusters {
      var plan = ClusterSimulation.Plan(seed: seed)
      plan.drain()
      let simulation = ClusterSimulation(plan)
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
      #expect(simulation.possibleDuplicateCount == 0, "\(simulation)")
    }
  }

  @Test("a commit that did not wait for the standby is in doubt, and may be lost with the primary")
  func warnings() {
    for seed in Seeds.clusters {
      var plan = ClusterSimulation.Plan(seed: seed)
      plan.store.warnedPerMille = 20
      let simulation = ClusterSimulation(plan)
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
    }
  }

  // These take minutes: see `CARILLON_EVERY_FAULT`.

  @Test(
    "planted mistakes of a segment are found", .enabled(if: Seeds.areAllFaults),
    arguments: SegmentMachine.PlantedMistake.allCases)
  func segmentMistakes(mistake: SegmentMachine.PlantedMistake) {
    let found = (1...2_000 as ClosedRange<UInt64>).contains { seed in
      var plan = ClusterSimulation.Plan(seed: seed)
      if mistake == .countsDoubtOnce { plan.killOften() }
      return !ClusterSimulation(plan, segmentMistake: mistake).run().isEmpty
    }
    #expect(found, "\(mistake) went unnoticed by the simulation")
  }

  @Test(
    "planted mistakes of the ledger are found", .enabled(if: Seeds.areAllFaults),
    arguments: LedgerContents.PlantedMistake.allCases.filter { $0 != .endsRunsOfOthers })
  func ledgerMistakes(mistake: LedgerContents.PlantedMistake) {
    let found = (1...2_000 as ClosedRange<UInt64>).contains { seed in
      var plan = ClusterSimulation.Plan(seed: seed)
      if mistake == .trustsWarnings { plan.store.warnedPerMille = 20 }
      if mistake == .readsBeforeTheClaim { plan.stopForTheLease() }
      return !ClusterSimulation(plan, ledgerMistake: mistake).run().isEmpty
    }
    #expect(found, "\(mistake) went unnoticed by the simulation")
  }
}
