internal import PushWire
internal import Testing

@Suite struct AppHoldTests {
  @Test("a pause and a suspension are independent; a new credential ends only the second")
  func reasons() {
    var hold = AppHold()
    #expect(!hold.isHeld)
    #expect(hold.paused())
    #expect(!hold.paused())
    #expect(hold.suspended("refused"))
    #expect(!hold.suspended("another reason"))
    #expect(hold.suspension == "refused")
    #expect(hold.restarted())
    #expect(hold.isHeld && hold.isPaused)
    #expect(!hold.restarted())
    #expect(hold.resumed())
    #expect(!hold.isHeld)
    #expect(!hold.resumed())
  }

  @Test("the operator ends both at once, and every change has a number of its own")
  func resume() {
    var hold = AppHold()
    var generations = [hold.generation]
    for _ in 0..<2 {
      #expect(hold.paused())
      generations.append(hold.generation)
      #expect(hold.resumed())
      generations.append(hold.generation)
    }
    #expect(generations == Array(0...4))
    _ = hold.suspended("refused")
    _ = hold.paused()
    #expect(hold.resumed())
    #expect(!hold.isHeld && hold.suspension == nil)
  }
}
