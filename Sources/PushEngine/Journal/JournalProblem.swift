internal import PushJournal

/// Why a journal cannot be used: one sentence for messages.
package struct JournalProblem: Error, Hashable, Sendable, CustomStringConvertible {
  package enum Kind: Hashable, Sendable {
    /// Another running process owns it.
    case inUse
    /// It contains something that no crash explains.
    case damaged
    case other
  }

  package let kind: Kind
  package let description: String

  init(_ error: JournalError) {
    switch error {
    case .inUse: self.init(kind: .inUse, "\(error)")
    case .damaged(let damage):
      guard case .version(let version) = damage.problem else {
        self.init(kind: .damaged, "\(error)")
        return
      }
      let sentence =
        "\(damage.segment) has version \(version) of the journal's format, "
        + "and this program reads version \(JournalDamage.knownVersion) only: "
        + "finish its campaign with the program that wrote it, or use another directory"
      self.init(kind: .other, sentence)
    case .notOurs, .file, .full, .recordTooLarge, .failed, .closed: self.init(kind: .other, "\(error)")
    }
  }

  init(kind: Kind, _ description: String) {
    self.kind = kind
    self.description = description
  }
}
