internal import Glibc
internal import PushWire
internal import Synchronization

/// The decision on a request that keeps the rules.
enum ServiceVerdict {
  case take
  /// The refusal's index in the app's rules; see ``RequestFaultInjector/refusal(_:)``.
  case refuse(Int)
  case noAnswer(isTaken: Bool)
  case reset(code: UInt32, isTaken: Bool)
  case cut(ServiceFaults.Poison)
}

/// Applies one app's fault rules to the requests of one connection. It counts requests and uses no
/// time, so the same requests get the same verdicts.
struct RequestFaultInjector {
  private struct Rule<Effect> {
    let matcher: TokenMatcher
    let effect: Effect
    init?(_ selection: Faults.Selection, connection: Int, _ effect: Effect) {
      guard let matcher = TokenMatcher(selection, connection: connection) else { return nil }
      (self.matcher, self.effect) = (matcher, effect)
    }
  }

  private let poison: [Rule<ServiceFaults.Poison>]
  private let resets: [Rule<ServiceFaults.Reset>]
  private let silences: [Rule<ServiceFaults.Silence>]
  private let refusals: [Rule<Int>]
  private let bursts: [(burst: ServiceFaults.Burst, number: Int)]
  private let answers: [ServiceFaults.Refuse]
  private let hasRules: Bool
  private let counts: RefusalCounts
  private var seen = 0

  /// `connection`: the number of this connection among its app's, from 1.
  init(_ faults: ServiceFaults, connection: Int, counts: RefusalCounts) {
    poison = faults.poison.compactMap { Rule($0.selection, connection: connection, $0) }
    resets = faults.reset.compactMap { Rule($0.selection, connection: connection, $0) }
    silences = faults.noAnswer.compactMap { Rule($0.selection, connection: connection, $0) }
    refusals = faults.refuse.enumerated().compactMap { Rule($1.selection, connection: connection, $0) }
    bursts = faults.bursts.enumerated().filter { connection <= $1.connections ?? .max }.map {
      ($1, faults.refuse.count + $0)
    }
    answers = faults.refuse + faults.bursts.map { ServiceFaults.Refuse(Faults.Selection(), $0.refusal) }
    hasRules = !poison.isEmpty || !resets.isEmpty || !silences.isEmpty || !refusals.isEmpty || !bursts.isEmpty
    self.counts = counts
  }

  func refusal(_ number: Int) -> ServiceFaults.Refuse { answers[number] }

  mutating func verdict(on token: UnsafeRawBufferPointer) -> ServiceVerdict {
    seen += 1
    guard hasRules else { return .take }
    for rule in poison where unsafe rule.matcher.matches(token, ordinal: seen) { return .cut(rule.effect) }
    for rule in resets where unsafe rule.matcher.matches(token, ordinal: seen) {
      return .reset(code: rule.effect.code, isTaken: rule.effect.isTaken)
    }
    for rule in silences where unsafe rule.matcher.matches(token, ordinal: seen) {
      return .noAnswer(isTaken: rule.effect.isTaken)
    }
    for rule in refusals where unsafe rule.matcher.matches(token, ordinal: seen) {
      if let times = answers[rule.effect].times, unsafe !counts.count(token, limit: times) { continue }
      return .refuse(rule.effect)
    }
    for (burst, number) in bursts where (seen - 1) % burst.every >= burst.every - burst.length {
      return .refuse(number)
    }
    return .take
  }
}

/// How often rules with `times` have refused each token, over all connections. Bounded: when it is
/// full, further tokens are not refused.
final class RefusalCounts: Sendable {
  static let limit = 1 << 20
  private let counts = Mutex<[TokenBytes: Int]>([:])

  /// Counts begin anew.
  func reset() { counts.withLock { $0 = [:] } }

  /// Counts one refusal; false: `limit` was reached before.
  func count(_ token: UnsafeRawBufferPointer, limit: Int) -> Bool {
    guard let token = unsafe TokenBytes(bytes: token) else { return false }
    return counts.withLock { counts in
      let count = counts[token] ?? 0
      guard count < limit, count > 0 || counts.count < Self.limit else { return false }
      counts[token] = count + 1
      return true
    }
  }
}

/// The delays of the responses on one connection. The connection's number is the seed, so a run can
/// be repeated.
struct DelayClock {
  private let delay: ServiceFaults.Delay
  private var random: SplitMix64

  init(_ delay: ServiceFaults.Delay, seed: Int) {
    self.delay = delay
    random = SplitMix64(seed: UInt64(truncatingIfNeeded: seed) &* 0xD134_2543_DE82_EF95 &+ 1)
  }

  mutating func next() -> Duration {
    switch delay {
    case .fixed(let duration): duration
    case .uniform(let least, let most):
      least + .nanoseconds(Int64(Double((most - least).wholeNanoseconds) * random.fraction()))
    case .exponential(let mean):
      .nanoseconds(Int64(Double(mean.wholeNanoseconds) * min(-log(1 - random.fraction()), 100)))
    }
  }
}
