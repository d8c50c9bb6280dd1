/// What operators have decided about apps.
package protocol AppStateRecords: Sendable {
  /// The apps that are paused, and since when.
  func pausedApps() async throws(StoreError) -> [String: StoreInstant]
  /// The app is paused from now on. The first pause counts.
  func pause(app: String, at instant: StoreInstant) async throws(StoreError)
  func resume(app: String) async throws(StoreError)
}
