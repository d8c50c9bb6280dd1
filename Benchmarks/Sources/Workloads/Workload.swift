/// Something to measure: an iteration is so many operations of one kind, the same ones every time.
package struct Workload: Sendable {
  /// `Part.what`, without spaces.
  package let name: String
  /// In one iteration.
  package let operations: Int
  /// What an operation is, in the plural.
  package let unit: String
  /// False where a running sender is at work: there, nothing may be allocated, whatever the thresholds say.
  package let mayAllocate: Bool
  /// Makes all that the iterations need.
  package let prepare: @Sendable () throws -> Iteration

  init(_ name: String, _ operations: Int, _ unit: String, mayAllocate: Bool = false, prepare: @escaping @Sendable () throws -> Iteration) {
    self.name = name
    self.operations = operations
    self.unit = unit
    self.mayAllocate = mayAllocate
    self.prepare = prepare
  }
}

/// A workload that is ready to be run, any number of times.
package struct Iteration {
  /// Goes back to where ``run`` begins. Not measured.
  package let reset: () throws -> Void
  package let run: () throws -> Void

  init(reset: @escaping () throws -> Void = {}, run: @escaping () throws -> Void) {
    self.reset = reset
    self.run = run
  }
}

extension Workload {
  /// Iterations before the first that is measured: what is allocated once and kept, is there by then.
  package static let warmUpCount = 3

  package static let all = codec + ring + packing + tls + journal + audience + engine
}

/// A workload did not do what it was made for, so its figures would mean nothing.
struct WorkloadFailure: Error, CustomStringConvertible {
  let description: String

  /// Throws unless `condition` holds.
  static func check(_ condition: Bool, _ description: @autoclosure () -> String) throws {
    guard condition else { throw WorkloadFailure(description: description()) }
  }
}
