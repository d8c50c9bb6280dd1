package import Carillon
internal import PushStore
package import PushStoreSQLite

/// Checks and copies a store: the work of `carillon store`.
package enum StoreMaintenance {
  /// Reads every page of a store.
  ///
  /// - Parameter path: of the store.
  package static func check(_ path: String) async throws(CarillonError) -> StoreReport {
    try await describingStoreErrors { () async throws(StoreError) in
      let file = try StoreFile(path: path)
      let report = try await file.check()
      try file.close()
      return report
    }
  }

  /// Copies a store that no other process has to be asked for.
  package static func backUp(_ path: String, to copy: String) async throws(CarillonError) {
    try await describingStoreErrors { () async throws(StoreError) in
      let file = try StoreFile(path: path)
      try await file.backUp(to: copy)
      try file.close()
    }
  }
}
