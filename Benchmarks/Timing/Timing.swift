internal import Benchmark
internal import CMeter
internal import Workloads

/// The workloads as benchmarks of ordo-one/benchmark: `swift package --package-path Benchmarks
/// benchmark`.
let benchmarks: @Sendable () -> Void = {
  // The package's own count of allocations is not available (see Package.swift), so CMeter counts.
  let allocations = BenchmarkMetric.custom("allocations")
  for workload in Workload.all {
    let configuration = Benchmark.Configuration(
      metrics: [.wallClock, allocations], warmupIterations: Workload.warmUpCount, maxDuration: .milliseconds(500),
      maxIterations: 1000)
    Benchmark(
      workload.name, configuration: configuration,
      closure: { (benchmark: Benchmark, iteration: Iteration) throws in
        try iteration.reset()
        let before = meter_allocations()
        benchmark.startMeasurement()
        try iteration.run()
        benchmark.stopMeasurement()
        benchmark.measurement(allocations, Int(meter_allocations() - before))
      },
      setup: { try workload.prepare() })
  }
}
