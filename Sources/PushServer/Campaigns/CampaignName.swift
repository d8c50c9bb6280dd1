internal import Carillon
internal import PushStore

extension StoredUUID {
  /// A UUID of version 7, which other machines do not make.
  static func makeCampaign() -> StoredUUID {
    let run = IntakeRunID(milliseconds: UInt64(StoreInstant.now.milliseconds), random: .random(in: 0 ... .max))
    return StoredUUID(NotificationID(run: run, line: .random(in: 0 ... .max)))
  }

  /// In its usual form.
  var text: String {
    let run = IntakeRunID(high: high, low: UInt32(low >> 32))
    return run.map { "\(NotificationID(run: $0, line: UInt32(truncatingIfNeeded: low)))" } ?? ""
  }

  init?(text: some StringProtocol) {
    guard let id = NotificationID(text) else { return nil }
    self.init(id)
  }

  /// What the journal calls a part of the campaign.
  func name(part: Int) -> String { "\(text)/\(part)" }
}
