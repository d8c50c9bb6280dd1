internal import CMeter
internal import Glibc
internal import Workloads

/// Runs each workload once, after warm-up iterations, and prints its allocations. Under callgrind
/// the same iteration's instructions go into one file for each workload. `ops/bench` runs it.
///
///     Count [PART OF A NAME]
///
/// Each line is `name operations allocations never|may unit`.
@main struct Count {
  static func main() {
    let filter = CommandLine.arguments.dropFirst().first ?? ""
    for workload in Workload.all where filter.isEmpty || workload.name.contains(filter) {
      do {
        print(
          workload.name, workload.operations, try allocations(of: workload), workload.mayAllocate ? "may" : "never",
          workload.unit)
      } catch {
        print("\(workload.name) failed: \(error)")
        exit(3)
      }
    }
  }

  private static func allocations(of workload: Workload) throws -> UInt64 {
    let iteration = try workload.prepare()
    for _ in 0..<Workload.warmUpCount {
      try iteration.reset()
      try iteration.run()
    }
    try iteration.reset()
    let before = meter_allocations()
    meter_begin()
    try iteration.run()
    let after = meter_allocations()
    unsafe meter_end(workload.name)
    return after - before
  }
}
