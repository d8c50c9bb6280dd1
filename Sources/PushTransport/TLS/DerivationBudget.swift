/// How much work a file may ask for to make keys out of its passphrase. Until it opens, the file may be anybody's.
struct DerivationBudget {
  /// For all keys of a file together: a few seconds. A container has three (integrity, certificates,
  /// key), of 600,000 rounds each where they are strong.
  static let roundLimit: Int64 = 3_000_000
  private var spent: Int64 = 0

  struct Exceeded: Error {
    /// So far.
    let rounds: Int64
  }

  mutating func spend(_ rounds: Int64) throws(Exceeded) {
    let (sum, overflows) = spent.addingReportingOverflow(rounds)
    spent = overflows ? .max : sum
    guard spent <= Self.roundLimit else { throw Exceeded(rounds: spent) }
  }
}
