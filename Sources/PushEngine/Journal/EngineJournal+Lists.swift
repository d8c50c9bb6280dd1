internal import PushJournal
package import PushWire

/// A list that could not be made durable.
package struct UnsyncedList: Error, Hashable, Sendable {
  package let path: String
  /// The `errno` of the call.
  package let code: Int32
  /// It is busy, or cannot be reached: the same call is made again soon, and nothing fails.
  package let isAway: Bool

  package init(path: String, code: Int32, isAway: Bool = false) {
    (self.path, self.code, self.isAway) = (path, code, isAway)
  }
}

/// A notification that was settled without being accepted, if the journal still has its record.
package struct SettledNotification: Hashable, Sendable {
  package let line: UInt64
  /// The device token in hexadecimal digits.
  package let token: String
  package let outcome: Outcome
}

extension EngineJournal {
  /// Calls `sync` on the journal's thread before each group of records is written, unless the
  /// journal never syncs. A list's row is written before the record that it is about, so what is
  /// durable in the journal is durable in the lists. If `sync` throws, the journal fails, or waits
  /// if the list is away.
  package func beforeCommits(_ sync: @escaping @Sendable () throws(UnsyncedList) -> Void) {
    beforeCommits(sync: sync, syncPassed: sync, syncIntake: sync)
  }

  /// Like ``beforeCommits(_:)``, with other functions for groups of records without outcomes.
  ///
  /// - Parameters:
  ///   - syncPassed: for groups that say of entries of audiences only that they are not sent.
  ///   - syncIntake: for groups that say nothing of the kind either.
  func beforeCommits(
    sync: @escaping @Sendable () throws(UnsyncedList) -> Void,
    syncPassed: @escaping @Sendable () throws(UnsyncedList) -> Void,
    syncIntake: @escaping @Sendable () throws(UnsyncedList) -> Void
  ) {
    journal.willCommit { (preparation: Preparation) throws(JournalFileError) in
      do throws(UnsyncedList) {
        switch preparation {
        case .all: try sync()
        case .lists: try syncPassed()
        case .least: try syncIntake()
        }
        return true
      } catch {
        if error.isAway { return false }
        throw JournalFileError(.sync, path: error.path, code: error.code)
      }
    }
  }

  /// The notifications of a campaign that were settled without being accepted and whose enqueue
  /// records are still in the journal. Reads the whole journal.
  ///
  /// - Parameter read: for those whose tokens lie in the campaign's token file. If it throws, they
  ///   are left out.
  package static func settled(
    of campaign: UInt64, directory: String, _ read: TokenReading
  ) throws(JournalProblem) -> [SettledNotification] {
    var contents = JournalState()
    var found: [SettledNotification] = []
    do throws(JournalError) {
      _ = try Journal.inspect(directory: directory) { position, kind, bytes in
        if let (run, outcome) = settlement(kind, bytes), run.campaign == campaign {
          found += contents.notifications(of: run, outcome, read)
        }
        // Damaged records were reported when the journal was opened.
        try? contents.read(position, kind: kind, bytes)
      }
    } catch { throw JournalProblem(error) }
    return found
  }

  private static func settlement(_ kind: UInt8, _ bytes: Span<UInt8>) -> (JournalledRun, Outcome)? {
    guard [.settled, .answered, .resolved].contains(JournalEvent.Kind(rawValue: kind)) else { return nil }
    var record = RecordReader(bytes)
    switch try? JournalEvent(kind: kind, reading: &record) {
    case .settled(let run, let outcome), .answered(let run, let outcome), .resolved(let run, let outcome):
      if case .accepted = outcome { return nil }
      return (run, outcome)
    default: return nil
    }
  }
}

extension JournalState {
  /// The notifications of a run that is about to be settled; none if some of them are not known.
  fileprivate func notifications(
    of run: JournalledRun, _ outcome: Outcome, _ read: TokenReading
  ) -> [SettledNotification] {
    var found: [SettledNotification] = []
    for part in lanes[run.lane]?.contents(of: run) ?? [] {
      guard let part = try? part.withTokens(read) else { return [] }
      part.forEach { notification in
        let token = unsafe TokenBytes(bytes: notification.token)?.description ?? ""
        found.append(SettledNotification(line: notification.line, token: token, outcome: outcome))
      }
    }
    return found.count == run.count ? found : []
  }
}
