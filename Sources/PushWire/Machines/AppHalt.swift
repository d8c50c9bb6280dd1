/// Why an app sends nothing at present: its operator has paused it, or it was suspended because of
/// its credential, its gateway or its tokens.
///
/// A value without a clock. The two reasons are independent: a new credential ends a suspension and
/// no pause.
package struct AppHalt: Hashable, Sendable {
  package private(set) var isPaused = false
  /// Why it was suspended, as a sentence; nil if it was not.
  package private(set) var suspension: String?
  /// When the suspension ends by itself; nil: never.
  package private(set) var retryAt: Instant?
  /// Grows with each change.
  package private(set) var generation = 0

  package init() {}

  package var isHalted: Bool { isPaused || suspension != nil }

  /// The operator pauses the app. Returns whether anything has changed.
  package mutating func paused() -> Bool {
    guard !isPaused else { return false }
    isPaused = true
    generation += 1
    return true
  }

  /// Something that another connection would not mend. The first reason stays, unless that one
  /// would end by itself and this one does not.
  ///
  /// - Parameter retryAt: when the app is to try again; nil: an operator must act.
  package mutating func suspended(_ reason: String, retryAt: Instant? = nil) -> Bool {
    guard suspension == nil || self.retryAt != nil && retryAt == nil else { return false }
    suspension = reason
    self.retryAt = retryAt
    generation += 1
    return true
  }

  /// The operator resumes the app, whatever halted it.
  package mutating func resumed() -> Bool {
    guard isHalted else { return false }
    (isPaused, suspension, retryAt) = (false, nil, nil)
    generation += 1
    return true
  }

  /// Ends a suspension, because its reason may no longer hold.
  package mutating func restarted() -> Bool {
    guard suspension != nil else { return false }
    (suspension, retryAt) = (nil, nil)
    generation += 1
    return true
  }
}
