internal import PushStore
internal import Testing

@Suite("States of apps in the store")
struct AppStateTests {
  @Test("a pause is remembered from its first request until the app is resumed", arguments: StoreKind.allCases)
  func pauses(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    var store = try place.open()
    #expect(try await store.pausedApps().isEmpty)
    for instant in [5, 9] as [Int64] { try await store.pause(app: "news", at: StoreInstant(milliseconds: instant)) }
    try await store.pause(app: "chat", at: StoreInstant(milliseconds: 7))
    try await store.resume(app: "chat")
    try await store.resume(app: "none")
    try store.close()
    store = try place.open()
    #expect(try await store.pausedApps() == ["news": StoreInstant(milliseconds: 5)])
    try await store.resume(app: "news")
    #expect(try await store.pausedApps().isEmpty)
    try store.close()
  }

  @Test("when an app's feedback service was read is remembered", arguments: StoreKind.allCases)
  func feedbackPolls(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    var store = try place.open()
    #expect(try await store.lastFeedbackPoll(app: "news") == nil)
    for instant in [5, 9] as [Int64] {
      try await store.noteFeedbackPoll(app: "news", at: StoreInstant(milliseconds: instant))
    }
    try store.close()
    store = try place.open()
    #expect(try await store.lastFeedbackPoll(app: "news") == StoreInstant(milliseconds: 9))
    #expect(try await store.lastFeedbackPoll(app: "chat") == nil)
    try store.close()
  }
}
