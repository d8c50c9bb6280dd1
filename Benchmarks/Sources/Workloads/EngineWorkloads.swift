internal import PushEngine

extension Workload {
  /// The engine's own work for a campaign. It is in the engine's module: see
  /// Sources/PushEngine/Inside.swift.
  static let engine = [template, enqueue, account]

  private static let template = Workload("Template.fill", InsideTemplate.fillCount, "payloads") {
    let inside = try InsideTemplate(#"{"aps":{"alert":"Hello {{name}} in {{city}}, there is something new"}}"#)
    return Iteration { try WorkloadFailure.check(inside.fill(), "a payload was not filled") }
  }

  /// What a campaign's reader and a lane write for a chunk of 1024: the enqueue record, an intent,
  /// an outcome. They allocate for each of these, never for a notification.
  private static let enqueue = Workload(
    "EngineJournal.chunk", InsideJournal.notificationCount, "notifications", mayAllocate: true
  ) {
    let inside = try InsideJournal(MemoryFiles(keepsContent: false), tokens: Samples.tokens(InsideJournal.chunkCount))
    return Iteration(
      reset: inside.makeDurable, run: { try WorkloadFailure.check(inside.takeInAndSettle(), "the journal has no room") }
    )
  }

  /// The accounting of a campaign: one call for a chunk taken in, one for a settled run.
  private static let account = Workload("Account.entries", InsideLedger.entryCount, "entries") {
    let inside = InsideLedger(payload: Samples.payload)
    return Iteration { try WorkloadFailure.check(inside.keepBooks(), "the account does not add up") }
  }
}
