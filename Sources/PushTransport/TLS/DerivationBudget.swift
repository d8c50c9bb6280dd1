/// Limits the work that a file may demand for deriving keys from its passphrase. Until it has been
/// opened, the file may come from anywhere.
struct DerivationBudget {
  /// For all keys of a file together: a few seconds. A container has three keys (integrity,
  /// certificates, key), with 600,000 rounds each in strong files.
  static let roundLimit: Int64 = 3_000_000
  private var spent: Int64 = 0

  struct Exceeded: Error {
    /// The rounds so far.
    let rounds: Int64
  }

  mutating func spend(_ rounds: Int64) throws(Exceeded) {
    let (sum, overflows) = spent.addingReportingOverflow(rounds)
    spent = overflows ? .max : sum
    guard spent <= Self.roundLimit else { throw Exceeded(rounds: spent) }
  }
}
