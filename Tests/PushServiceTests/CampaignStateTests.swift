internal import Carillon
internal import Testing

@testable internal import PushService

@Suite("states of a campaign")
struct CampaignStateTests {
  private static let events: [CampaignEvent] = [
    .uploadBegan, .uploadEnded(isComplete: false), .uploadEnded(isComplete: true), .edited, .started(isDue: false),
    .started(isDue: true), .due(isDue: false), .due(isDue: true), .paused, .resumed(isBegun: false),
    .resumed(isBegun: true), .cancelled, .doubted, .decided, .hindered, .freed, .ended, .failed, .audienceFixed,
    .settled,
  ]

  /// Every state with every event, in the order above: a state, `=` for no change, `~` for a change
  /// of something else, `!` for refused.
  private static let table: [(CampaignState, String)] = [
    (.draft, "uploading ! ! ~ scheduled running = = ! ! ! cancelled = ! = = = failed = ="),
    (.uploading, "~ ~ draft ! ! ! = = ! ! ! cancelled = ! = = = failed = ="),
    (.scheduled, "! ! ! ~ = = = running paused = = cancelled held = = = = failed = ="),
    (.running, "! ! ! ! = = = = paused = = cancelled held = held = finished failed ~ ="),
    (.paused, "! ! ! ! ! ! = = = scheduled running cancelled = running = = finished failed = ="),
    (.held, "! ! ! ! = = = = paused = = cancelled ~ running = running finished failed = ="),
    (.finished, "! ! ! ! = = = = ! ! ! ! = ! = = = = = ="),
    (.cancelled, "! ! ! ! ! ! = = ! ! ! = = ! = = = = ~ ~"),
    (.failed, "! ! ! ! ! ! = = ! ! ! ! = ! = = = = ~ ~"),
  ]

  @Test("every event in every state", arguments: table.map(\.0))
  func transitions(state: CampaignState) throws {
    let row = try #require(Self.table.first { $0.0 == state }).1.split(separator: " ").map(String.init)
    try #require(row.count == Self.events.count)
    for (event, expected) in zip(Self.events, row) {
      let found =
        switch state.after(event) {
        case .to(let next): next.rawValue
        case .edits: "~"
        case .stays: "="
        case .refused: "!"
        }
      #expect(found == expected, "\(state) after \(event)")
    }
  }

  @Test("what an app causes is no failure of a part that could not begin; only a journal or the end leaves it")
  func setbacks() {
    func setback(_ code: CarillonError.ErrorCode, isEnding: Bool = false, isAppTroubled: Bool = false) -> PartSetback {
      PartSetback(code, isEnding: isEnding, isAppTroubled: isAppTroubled)
    }
    for code in [CarillonError.ErrorCode.configuration, .cancelled, .gateway, .credential] {
      #expect(setback(code) == .begins, "the app is removed, or was a moment ago: \(code)")
      #expect(setback(code, isEnding: true) == .leaves)
    }
    #expect(setback(.journal, isAppTroubled: true) == .leaves)
    #expect(setback(.payload) == .fails)
    #expect(setback(.payload, isAppTroubled: true) == .begins)
  }

  @Test("the table has every state; one that is over is never left")
  func exhaustive() {
    #expect(Set(Self.table.map(\.0)) == Set(CampaignState.allCases))
    for state in CampaignState.allCases where state.isOver {
      for event in Self.events {
        if case .to(let next) = state.after(event) { Issue.record("\(state) becomes \(next) by \(event)") }
      }
    }
  }
}
