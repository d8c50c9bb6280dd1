internal import Carillon
internal import PushEngine

/// The outcomes of abandoned campaigns, completed with the notifications that were not sent.
struct AbandonedLists: Sendable {
  private var file: OutcomesFile?
  private var tokens: [UInt64: String] = [:]
  private var problem: String?
  private var tokenProblem: String?

  init(_ opened: SendJournal, _ campaigns: [JournalledCampaign]) {
    do {
      var sources: [OutcomesHistory.Source] = []
      var path: String?
      var columns = OutcomesColumns(namesSource: campaigns.count > 1, namesTime: false)
      for campaign in campaigns {
        let context = try opened.context(of: campaign).send
        path = context.outcomes
        columns.namesTime = columns.namesTime || context.app.transport.isHTTP2
        tokens[campaign.number] = context.tokensName
        guard campaign.phase == .open else { continue }
        do { if path != nil { try opened.readTokens(of: campaign, isCompared: false) } } catch {
          tokenProblem = "the list of outcomes names some lines without their tokens: \(error.message)"
        }
        let settled = SettledLines(of: campaign, recoveredRuns: opened.journal.recoveredRuns(of: campaign.number))
        sources.append(OutcomesHistory.Source(app: campaign.app, tokens: context.tokensName, settled: settled))
      }
      guard let path else { return }
      let history = try OutcomesHistory(path: path, columns: columns, sources: sources)
      file = try OutcomesFile(replacing: path, columns: columns, rows: history.rows)
    } catch {
      // The campaigns are abandoned nevertheless.
      problem = "the list of outcomes is not completed: \(CarillonError(describing: error).message)"
    }
  }

  func listener(_ campaign: JournalledCampaign) -> (any OutcomeListener)? {
    file?.listener(app: campaign.app, tokens: tokens[campaign.number] ?? "")
  }

  func sync() throws(UnsyncedList) { try file?.sync() }

  /// Returns why the list is not complete, in a sentence.
  func finish() -> String? { problem ?? file?.finish() ?? tokenProblem }
}
