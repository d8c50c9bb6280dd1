/// Something to measure. An iteration runs the same operations every time.
package struct Workload: Sendable {
  /// `Part.what`, without spaces.
  package let name: String
  /// The number of operations in one iteration.
  package let operations: Int
  /// The name of an operation, in the plural.
  package let unit: String
  /// False: the code runs in a busy sender and may not allocate at all, whatever the thresholds
  /// say.
  package let mayAllocate: Bool
  /// Makes everything that the iterations need.
  package let prepare: @Sendable () throws -> Iteration

  init(
    _ name: String, _ operations: Int, _ unit: String, mayAllocate: Bool = false,
    prepare: @escaping @Sendable () throws -> Iteration
  ) {
    self.name = name
    self.operations = operations
    self.unit = unit
    self.mayAllocate = mayAllocate
    self.prepare = prepare
  }
}

/// A workload that can be run any number of times.
package struct Iteration {
  /// Goes back to the start of ``run``. Not measured.
  package let reset: () throws -> Void
  package let run: () throws -> Void

  init(reset: @escaping () throws -> Void = {}, run: @escaping () throws -> Void) {
    self.reset = reset
    self.run = run
  }
}

extension Workload {
  /// Iterations before the first measured one. They allocate what is allocated once and kept.
  package static let warmUpCount = 3

  package static let all = codec + json + ring + packing + http2 + tls + journal + audience + engine
}

/// A workload did not do its work, so its figures would mean nothing.
struct WorkloadFailure: Error, CustomStringConvertible {
  let description: String

  /// Throws unless `condition` holds.
  static func check(_ condition: Bool, _ description: @autoclosure () -> String) throws {
    guard condition else { throw WorkloadFailure(description: description()) }
  }
}
