internal import PushEngine
internal import PushWire

/// Those of a service's campaign who were never read.
struct ServedRest: Sendable {
  private let audience: ServedCampaign.Audience
  private let mark: AudienceMark?
  /// The last line that was read; 0: none.
  private let line: UInt64

  init(_ audience: ServedCampaign.Audience, behind campaign: JournalledCampaign?) {
    self.audience = audience
    line = campaign?.readLine ?? 0
    mark = campaign.flatMap { $0.readLine == 0 ? nil : $0.mark }
  }

  /// Reports everybody to the listener who can be read.
  ///
  /// - Throws: ``CarillonError``: ``CarillonError/ErrorCode/cancelled`` if the task was
  ///   cancelled, or that another source than a file cannot be read at present.
  func settled(_ outcome: Outcome, _ listener: any OutcomeListener) async throws(CarillonError) -> Account {
    var account = Account()
    var isWhole = true
    do throws(AudienceError) {
      isWhole = try await read { line, token, outcome in
        listener.notAccepted(line: line, token: token, outcome: outcome)
        account.submitted += 1
        account.count(outcome, 1)
      }
    } catch {
      // Of a file of its own, what can be read is settled.
      if case .file = audience {} else { throw CarillonError(describing: error) }
    }
    guard isWhole else { throw CarillonError(.cancelled, "The rest of the audience was not settled.") }
    listener.flush()
    return account

    func read(_ settle: (UInt64, String, Outcome) -> Void) async throws(AudienceError) -> Bool {
      let chunk = AudienceChunk(payloadCapacity: AudienceChunk.defaultPayloadCapacity)
      let signal = ReaderSignal()
      switch audience {
      case .file(let kept, let selection):
        let file: AudienceFile
        do {
          file = try AudienceFile(kept, from: mark, selection: selection)
        } catch let error as AudienceError {
          throw error
        } catch { throw AudienceError(path: nil, problem: .cannotRead("\(error)")) }
        return try await file.settleRest(
          chunk, behind: line, signal: signal, as: outcome, while: { !Task.isCancelled }, settle)
      case .rows(let kept, let mark, let permit):
        let rows: PermittedRows
        do {
          rows = PermittedRows(
            try AudienceFile(kept, from: mark), permit: permit(line), payloadCapacity: chunk.payloadCapacity)
        } catch let error as AudienceError {
          throw error
        } catch { throw AudienceError(path: nil, problem: .cannotRead("\(error)")) }
        rows.attach(signal)
        return try await rows.settleRest(
          chunk, behind: line, signal: signal, as: outcome, while: { !Task.isCancelled }, settle)
      case .source(let make):
        let (source, feed) = make(line)
        source.attach(signal)
        let result = await withTaskGroup(of: Void.self) { tasks -> Result<Bool, AudienceError> in
          tasks.addTask { await feed?() }
          defer { tasks.cancelAll() }
          return await withTaskCancellationHandler {
            do throws(AudienceError) {
              return .success(
                try await source.settleRest(
                  chunk, behind: line, signal: signal, as: outcome, while: { !Task.isCancelled }, settle))
            } catch { return .failure(error) }
          } onCancel: {
            // The feed ends without a word.
            signal.set()
          }
        }
        return try result.get()
      }
    }
  }
}
