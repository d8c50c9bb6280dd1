internal import PushEngine

extension Workload {
  /// What the engine itself does with a campaign. The inside of these is in the engine's own module: see Sources/PushEngine/Inside.swift.
  static let engine = [template, enqueue, account]

  private static let template = Workload("Template.fill", InsideTemplate.fillCount, "payloads") {
    let inside = try InsideTemplate(#"{"aps":{"alert":"Hello {{name}} in {{city}}, there is something new"}}"#)
    return Iteration { try WorkloadFailure.check(inside.fill(), "a payload was not filled") }
  }

  /// What a campaign's reader and a lane write for a chunk of 1024: the enqueue record, an intent, an outcome. What it allocates is for each of these, never
  /// for a notification.
  private static let enqueue = Workload("EngineJournal.chunk", InsideJournal.notificationCount, "notifications", mayAllocate: true) {
    let inside = try InsideJournal(MemoryFiles(keepsContent: false), tokens: Samples.tokens(InsideJournal.chunkCount))
    return Iteration(
      reset: inside.makeDurable, run: { try WorkloadFailure.check(inside.takeInAndSettle(), "the journal has no room") })
  }

  /// What the books hear of a campaign: one call for a chunk taken in, one for a run settled.
  private static let account = Workload("Account.entries", InsideLedger.entryCount, "entries") {
    let inside = InsideLedger(payload: Samples.payload)
    return Iteration { try WorkloadFailure.check(inside.keepBooks(), "the account does not add up") }
  }
}
