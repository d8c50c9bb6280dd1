/// The files that `carillon verify` compares. Nine tokens arrive, the tenth is refused, and a line
/// of the list of devices has no token.
package struct VerificationFiles {
  package var account = Self.account()
  package var list = [
    "10,\(Self.token(10, prefix: "dead")),rejected,8 invalid token", "11,nonsense,rejected,malformed token",
  ]
  package var record =
    (1...9).map { Self.line(Self.token($0)) } + [Self.line(Self.token(10, prefix: "dead"), refused: "8")]

  package init() {}

  package static func token(_ number: Int, prefix: String = "00") -> String {
    let digits = String(number, radix: 16)
    return prefix + String(repeating: "0", count: 64 - prefix.count - digits.count) + digits
  }

  package static func account(
    submitted: Int = 11, confirmed: Int = 9, invalid: Int = 1, malformed: Int = 1, unknown: Int = 0, copies: Int = 0
  ) -> String {
    """
    {"apps":{"news":{"submitted":\(submitted),"accepted":{"confirmed":\(confirmed),"quiet":0},\
    "rejected":{"total":\(invalid + malformed),\
    "byReason":{"8 invalid token":\(invalid),"malformed token":\(malformed)}},\
    "suppressed":0,"expired":0,"held":0,"cancelled":0,"unknown":\(unknown),"resent":\(copies),\
    "possibleDuplicates":\(copies),"possibleCopies":\(copies),"notes":[],"neverRead":[]}},\
    "seconds":1.000,"perSecond":11.000}
    """
  }

  /// A line of the record.
  package static func line(_ token: String, app: String = "com.example.news", refused: String? = nil) -> String {
    "{\"app\":\"\(app)\",\"connection\":1,\"command\":2,\"identifier\":1,\"token\":\"\(token)\",\"payload\":null"
      + (refused.map { ",\"refused\":\($0)" } ?? "") + "}"
  }

  /// Writes account.json, list.csv and record.jsonl.
  package func write(to place: Workplace) throws {
    try place.write(account, to: "account.json")
    try place.write((["line,token,outcome,reason"] + list).joined(separator: "\n") + "\n", to: "list.csv")
    try place.write(record.map { $0 + "\n" }.joined(), to: "record.jsonl")
  }
}
