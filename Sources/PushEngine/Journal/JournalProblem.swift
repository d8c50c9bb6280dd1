internal import PushJournal

/// Why a journal cannot be used: one sentence for people.
package struct JournalProblem: Error, Hashable, Sendable, CustomStringConvertible {
  package enum Kind: Hashable, Sendable {
    /// Another living process has it.
    case inUse
    /// Something in it that no crash explains.
    case damaged
    case other
  }

  package let kind: Kind
  package let description: String

  init(_ error: JournalError) {
    kind =
      switch error {
      case .inUse: .inUse
      case .damaged: .damaged
      case .notOurs, .file, .full, .recordTooLarge, .failed, .closed: .other
      }
    description = "\(error)"
  }

  init(kind: Kind, _ description: String) {
    self.kind = kind
    self.description = description
  }
}
