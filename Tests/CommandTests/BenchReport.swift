internal import Foundation
internal import Support

/// What `carillon bench --json` prints.
struct BenchReport: Decodable {
  struct Settings: Decodable {
    let transport: String
    let apps: Int
    let connections: Int
    /// HTTP/2 only.
    let streams: Int?
    let batchBytes: Int
    let payloadBytes: Int
    let rate: Double?
    let latencyMilliseconds: Double
  }
  struct Processor: Decodable {
    let user: Double
    let system: Double
  }
  struct Latency: Decodable {
    let count: Int
    let mean: Double
    let p50: Double
    let p90: Double
    let p99: Double
    let max: Double
  }
  struct Latencies: Decodable {
    let toSocket: Latency?
    let toAnswer: Latency?
    let trickleToSocket: Latency?
  }
  struct Batches: Decodable {
    let count: Int
    let notifications: Double
    let bytes: Double
    let fill: Double
  }
  struct Account: Decodable {
    let submitted: Int
    let confirmed: Int
    let quiet: Int
    let rejected: Int
    let cancelled: Int
    let unknown: Int
    let resent: Int
  }
  struct Point: Decodable {
    let settings: Settings
    let seconds: Double
    let notifications: Int
    let perSecond: Double
    let cpuMicrosecondsPerNotification: Processor
    let latencyMicroseconds: Latencies
    let batches: Batches
    let bytesPerTLSRecord: Double
    let peakMemoryBytes: Int
    let neverSent: Int
    let account: Account
  }
  struct Machine: Decodable {
    let processor: String
    let cores: Int
    let memoryBytes: Int
    let kernel: String
  }
  let machine: Machine
  let target: String
  let transport: String
  /// Nil without the binary protocol.
  let command: Int?
  let threads: Int
  let swept: [String]
  let points: [Point]
  let simulatorAccepted: Int?
  let agreesWithSimulator: Bool?
  let complete: Bool

  init(_ ending: Ending) throws {
    self = try JSONDecoder().decode(BenchReport.self, from: Data(ending.output.utf8))
  }
}
