internal import PushWire
internal import Support
internal import Testing

@testable internal import PushService

/// What nodes do at the same time.
@Suite struct ClusterSimulationTests {
  /// Runs the known seeds and some more.
  ///
  /// - Parameter leavesDoubt: whether somebody may get it twice.
  private func run(leavesDoubt: Bool, _ change: (inout ClusterSimulation.Plan) -> Void = { _ in }) {
    for seed in Seeds.clusters {
      var plan = ClusterSimulation.Plan(seed: seed)
      change(&plan)
      let simulation = ClusterSimulation(plan)
      let problems = simulation.run()
      #expect(problems.isEmpty, "\(simulation): \(problems.prefix(3))")
      if !leavesDoubt { #expect(simulation.possibleDuplicateCount == 0, "\(simulation)") }
    }
  }

  @Test("nodes send one campaign together, through kills, stops and lost answers: everybody gets it, and copies count")
  func account() { run(leavesDoubt: true) }

  @Test("nodes that end in good order leave nothing in doubt")
  func rolling() { run(leavesDoubt: false) { $0.roll() } }

  @Test("a store that fails now and then leaves nothing in doubt")
  func refusals() {
    run(leavesDoubt: false) { ($0.events, $0.store.failuresPerMille, $0.store.lostAnswersPerMille) = ([], 20, 0) }
  }

  @Test("nodes that are drained, and killed when they carry nothing, leave nothing in doubt")
  func draining() { run(leavesDoubt: false) { $0.drain() } }

  @Test("nodes that are killed again and again, and lose their disks, count each copy")
  func killing() { run(leavesDoubt: true) { $0.killOften() } }

  @Test("nodes that are killed and come back at once go on with what they had")
  func comingBack() { run(leavesDoubt: true) { $0.comeBack() } }

  @Test("a commit that did not wait for the standby is in doubt, and may be lost with the primary")
  func warnings() { run(leavesDoubt: true) { $0.store.warnedPerMille = 20 } }

  @Test("a node that trusts the store's clock is found: it takes the place of nodes that live")
  func storeClock() {
    let found = (1...2_000 as ClosedRange<UInt64>).contains { seed in
      let simulation = ClusterSimulation(ClusterSimulation.Plan(seed: seed), membershipMistake: .trustsTheStoresClock)
      return !simulation.run().isEmpty
    }
    #expect(found)
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
