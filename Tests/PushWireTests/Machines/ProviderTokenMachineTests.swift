internal import PushWire
internal import Support
internal import Testing

@Suite("when provider tokens are made")
struct ProviderTokenMachineTests {
  /// A machine with two clocks. Carries out its decisions and counts the tokens.
  private struct Driver {
    var machine = ProviderTokenMachine()
    var seconds: UInt64 = 1000
    /// A full hour.
    var unix: Int64 = 1_699_999_200
    var minted: [(at: UInt64, issuedAt: Int64)] = []

    var now: Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

    mutating func pass(minutes: Int) {
      seconds += UInt64(minutes * 60)
      unix += Int64(minutes * 60)
    }

    /// The generation in use, or nil if it has to wait.
    mutating func use() -> UInt64? {
      switch machine.token(now: now, unixSeconds: unix) {
      case .use(let generation): return generation
      case .mint(let issuedAt):
        machine.minted(issuedAt: issuedAt, now: now)
        minted.append((seconds, issuedAt))
        return machine.generation
      case .wait: return nil
      }
    }

    mutating func refuse(
      _ refusal: ProviderTokenMachine.TokenRefusal, generation: UInt64? = nil, date: Int64? = nil
    ) -> ProviderTokenMachine.Reaction {
      machine.refused(
        refusal, generation: generation ?? machine.generation, date: date, now: now, unixSeconds: unix)
    }
  }

  @Test("one is made at first, kept for half an hour, and replaced before it is 60 minutes old")
  func refresh() {
    var driver = Driver()
    for minute in 0..<300 {
      #expect(driver.use() != nil, "minute \(minute)")
      let age = driver.unix - (driver.minted.last?.issuedAt ?? 0)
      #expect(age < 60 * 60)
      driver.pass(minutes: 1)
    }
    #expect(driver.minted.count == 10)
    #expect(zip(driver.minted, driver.minted.dropFirst()).allSatisfy { $1.at - $0.at == 30 * 60 })
  }

  @Test("whenever processes begin, their tokens are of the same full or half hour", arguments: 0..<200)
  func together(number: Int) {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    var drivers = (0..<3).map { _ in Driver() }
    for place in drivers.indices { drivers[place].pass(minutes: Int.random(in: 0..<200, using: &random)) }
    let latest = drivers.map(\.unix).max() ?? 0
    for place in drivers.indices {
      // Each has run since it began.
      while drivers[place].unix < latest + 3 * 3600 {
        #expect(drivers[place].use() != nil)
        let age = drivers[place].unix - (drivers[place].minted.last?.issuedAt ?? 0)
        #expect(age < 59 * 60, "seed \(seed): the service takes none that is older than an hour")
        drivers[place].pass(minutes: 1)
      }
      let minted = drivers[place].minted
      #expect(minted.allSatisfy { $0.issuedAt.isMultiple(of: 1800) })
      #expect(zip(minted, minted.dropFirst()).allSatisfy { $1.at - $0.at >= 20 * 60 }, "seed \(seed)")
    }
    // Within an hour after the last one has begun.
    let ends = drivers.map { $0.minted.suffix(3).map(\.issuedAt) }
    #expect(Set(ends).count == 1, "seed \(seed): \(ends)")
  }

  @Test("after a long pause the next use makes a new token")
  func rest() {
    var driver = Driver()
    #expect(driver.use() == 1)
    driver.pass(minutes: 500)
    #expect(driver.use() == 2)
    // The computer was suspended, so only the wall clock has advanced.
    driver.unix += 3600
    #expect(driver.use() == 3)
  }

  @Test("an accepted token that is refused as expired is replaced when it is 20 minutes old, not before")
  func expired() {
    var driver = Driver()
    #expect(driver.use() == 1)
    driver.machine.accepted(generation: 1)
    driver.pass(minutes: 5)
    #expect(driver.refuse(.expired, date: driver.unix) == .resend)
    #expect(
      driver.machine.token(now: driver.now, unixSeconds: driver.unix)
        == .wait(until: Instant(nanoseconds: (1000 + 20 * 60) * 1_000_000_000)))
    driver.pass(minutes: 15)
    #expect(driver.use() == 2)
    // Late refusals about the old one change nothing.
    #expect(driver.refuse(.expired, generation: 1) == .resend)
    #expect(driver.use() == 2)
  }

  @Test(
    "the response's date reveals a clock that is wrong by more than a minute, and one new token is made",
    arguments: [-7200, -3600, 3600, 90] as [Int64])
  func skew(error: Int64) {
    var driver = Driver()
    #expect(driver.use() == 1)
    #expect(driver.refuse(error < 0 ? .expired : .invalid, date: driver.unix - error) == .resend)
    #expect(driver.machine.correction == -error)
    #expect(driver.use() == 2)
    #expect(driver.minted[1].issuedAt == driver.unix - error)
    driver.machine.accepted(generation: 2)
    driver.pass(minutes: 19)
    #expect(driver.use() == 2)
    driver.pass(minutes: 30)
    #expect(driver.use() == 3)
    let time = driver.unix - error
    #expect(driver.minted[2].issuedAt == time - time % 1800)
    // The clock is corrected. The next refusal removes the correction.
    driver.unix -= error
    driver.pass(minutes: 46)
    #expect(driver.use() == 4)
    #expect(driver.refuse(.invalid, date: driver.unix) == .resend)
    #expect(driver.machine.correction == 0)
    #expect(driver.use() == 5)
  }

  @Test("an invalid token while the clocks agree means a wrong key: the app pauses, and none is made")
  func invalid() {
    var driver = Driver()
    #expect(driver.use() == 1)
    #expect(driver.refuse(.invalid, date: driver.unix + 30) == .pause)
    #expect(driver.refuse(.invalid, date: nil) == .pause)
    #expect(driver.use() == 1)
    #expect(driver.minted.count == 1)
  }

  @Test("after TooManyProviderTokenUpdates the present token is kept for 20 more minutes")
  func tooManyUpdates() {
    var driver = Driver()
    #expect(driver.use() == 1)
    driver.pass(minutes: 44)
    #expect(driver.refuse(.tooManyUpdates) == .resend)
    driver.pass(minutes: 2)
    #expect(driver.use() == 1)
    driver.pass(minutes: 12)
    #expect(driver.use() == 1)
    driver.pass(minutes: 2)
    #expect(driver.use() == 2)
  }

  @Test(
    "two tokens are at least 20 minutes apart; only one that was never accepted is replaced earlier, once",
    arguments: 0..<200)
  func never(number: Int) {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    var driver = Driver()
    var accepted: Set<UInt64> = []
    for _ in 0..<400 {
      if let generation = driver.use(), random.chance(40) {
        driver.machine.accepted(generation: generation)
        accepted.insert(generation)
      }
      if random.chance(30) {
        let date = random.chance(50) ? driver.unix + Int64.random(in: -5000...5000, using: &random) : nil
        let refusal =
          [ProviderTokenMachine.TokenRefusal.expired, .invalid, .tooManyUpdates].randomElement(using: &random)
          ?? .expired
        let generation =
          driver.machine.generation > 0 && random.chance(20) ? driver.machine.generation - 1 : driver.machine.generation
        _ = driver.refuse(refusal, generation: generation, date: date)
      }
      driver.pass(minutes: Int.random(in: 0...6, using: &random))
    }
    #expect(driver.minted.count > 5)
    var exceptions: [UInt64] = []
    for index in driver.minted.indices.dropFirst() where driver.minted[index].at - driver.minted[index - 1].at < 20 * 60
    {
      #expect(!accepted.contains(UInt64(index)), "seed \(seed)")
      exceptions.append(driver.minted[index].at)
    }
    #expect(zip(exceptions, exceptions.dropFirst()).allSatisfy { $1 - $0 >= 20 * 60 }, "seed \(seed)")
  }
}
