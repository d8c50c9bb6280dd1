/// What a benchmark reports while it runs.
package enum BenchEvent: Sendable {
  /// Before the first point, with a sentence on what is started.
  case preparing(String)
  /// The point with this index, from 0, has been in a stage for `elapsed`.
  case running(point: Int, BenchSettings, BenchStage, elapsed: Duration)
  case measured(point: Int, BenchPoint)
}

/// What a point is doing.
package enum BenchStage: Hashable, Sendable {
  case connecting(Int, of: Int)
  case warmingUp
  /// `fraction`: 0…1 of the point.
  case measuring(settled: Int, fraction: Double)
  case settling
}
