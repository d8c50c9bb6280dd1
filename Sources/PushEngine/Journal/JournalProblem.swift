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
    case .damaged: self.init(kind: .damaged, "\(error)")
    case .version, .notOurs, .file, .full, .recordTooLarge, .failed, .closed: self.init(kind: .other, "\(error)")
    }
  }

  init(kind: Kind, _ description: String) { (self.kind, self.description) = (kind, description) }
}
