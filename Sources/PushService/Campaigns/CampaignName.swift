package import PushStore

extension StoredUUID {
  /// What the journal calls a part of the campaign with this id.
  package func name(part: Int) -> String { "\(text)/\(part)" }

  /// Nil: the name is no part's.
  package static func part(named name: String) -> (id: StoredUUID, number: Int)? {
    let words = name.split(separator: "/", omittingEmptySubsequences: false)
    guard words.count == 2, let id = StoredUUID(String(words[0])), let number = Int(words[1]) else { return nil }
    return (id, number)
  }
}
