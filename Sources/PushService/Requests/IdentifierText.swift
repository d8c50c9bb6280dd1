package import Carillon
package import PushStore

extension StoredUUID {
  /// A new one, of version 7.
  package static func make(at instant: StoreInstant) -> StoredUUID {
    let run = IntakeRunID(milliseconds: UInt64(clamping: instant.milliseconds), random: .random(in: 0 ... .max))
    return StoredUUID(NotificationID(run: run, line: .random(in: 0 ... .max)))
  }

  package init(_ id: NotificationID) { self.init(high: id.run.high, low: UInt64(id.run.low) << 32 | UInt64(id.line)) }

  /// - Parameter text: a UUID of version 7 in its usual form.
  package init?(_ text: some StringProtocol) {
    guard let id = NotificationID(text) else { return nil }
    self.init(id)
  }

  package var text: String {
    let digits = [high, low].map { number in
      let text = String(number, radix: 16)
      return String(repeating: "0", count: 16 - text.count) + text
    }.joined()
    var text = ""
    for (index, digit) in digits.enumerated() {
      if [8, 12, 16, 20].contains(index) { text.append("-") }
      text.append(digit)
    }
    return text
  }
}
