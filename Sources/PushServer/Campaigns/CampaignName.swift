internal import PushStore

extension StoredUUID {
  /// What the journal calls a part of the campaign with this id.
  func name(part: Int) -> String { "\(text)/\(part)" }
}
