internal import PushWire
internal import Testing

@Suite struct AppHaltTests {
  /// Applies changes; returns what each of them returns.
  private static func changes(
    _ hold: inout AppHalt, _ changes: [@Sendable (inout AppHalt) -> Bool]
  ) -> [Bool] { changes.map { $0(&hold) } }

  @Test("a pause and a suspension are independent; a new credential ends only the second")
  func reasons() {
    var hold = AppHalt()
    #expect(!hold.isHalted)
    let begun = Self.changes(
      &hold, [{ $0.paused() }, { $0.paused() }, { $0.suspended("refused") }, { $0.suspended("another reason") }])
    #expect(begun == [true, false, true, false])
    #expect(hold.suspension == "refused")
    let restarted = Self.changes(&hold, [{ $0.restarted() }, { $0.restarted() }])
    #expect(restarted == [true, false])
    #expect(hold.isHalted)
    #expect(hold.isPaused)
    let resumed = Self.changes(&hold, [{ $0.resumed() }, { $0.resumed() }])
    #expect(resumed == [true, false])
    #expect(!hold.isHalted)
  }

  @Test("a suspension that ends by itself gives way to one that does not, and to no other")
  func retries() {
    var hold = AppHalt()
    let soon = Instant(nanoseconds: 5)
    let changes = Self.changes(
      &hold,
      [
        { $0.suspended("no progress", retryAt: soon) }, { $0.suspended("again", retryAt: Instant(nanoseconds: 9)) },
      ])
    #expect(changes == [true, false])
    #expect(hold.retryAt == soon)
    #expect(
      Self.changes(&hold, [{ $0.suspended("removed") }, { $0.suspended("no progress", retryAt: soon) }]) == [
        true, false,
      ])
    #expect(hold.suspension == "removed")
    #expect(hold.retryAt == nil)
    for end in [{ $0.restarted() }, { $0.resumed() }] as [@Sendable (inout AppHalt) -> Bool] {
      hold = AppHalt()
      #expect(Self.changes(&hold, [{ $0.suspended("no progress", retryAt: soon) }, end]) == [true, true])
      #expect(hold.retryAt == nil)
    }
  }

  @Test("the operator ends both at once, and every change has a number of its own")
  func resume() {
    var hold = AppHalt()
    var generations = [hold.generation]
    for _ in 0..<2 {
      _ = hold.paused()
      generations.append(hold.generation)
      _ = hold.resumed()
      generations.append(hold.generation)
    }
    #expect(generations == Array(0...4))
    let both = Self.changes(&hold, [{ $0.suspended("refused") }, { $0.paused() }, { $0.resumed() }])
    #expect(both == [true, true, true])
    #expect(!hold.isHalted)
    #expect(hold.suspension == nil)
  }
}
