/// The devices of apps.
package protocol DeviceRecords: Sendable {
  /// Registers one device. Concurrent calls share a commit.
  func register(_ device: DeviceRegistration, app: String) async throws(StoreError) -> RegisteredDevice
  /// Registers devices, in this order: all, or none. About a thousand at a time, because others
  /// wait for that long to write. Tokens in their order are much faster.
  func importDevices(
    _ devices: [DeviceRegistration], app: String
  ) async throws(StoreError) -> [RegisteredDevice]
  func device(token: [UInt8], app: String) async throws(StoreError) -> StoredDevice?
  func device(id: StoredUUID, app: String) async throws(StoreError) -> StoredDevice?
  /// Those that are there, by id.
  func devices(ids: [StoredUUID], app: String) async throws(StoreError) -> [StoredUUID: StoredDevice]
  /// - Returns: false if there is none.
  func removeDevice(token: [UInt8], app: String) async throws(StoreError) -> Bool
  /// A page of an app's devices, by ``StoredDevice/key``.
  ///
  /// - Parameters:
  ///   - tag: that they have. Nil: all devices.
  ///   - key: of the last device that is known; 0 from the beginning.
  func devices(
    app: String, tag: String?, after key: Int64, limit: Int
  ) async throws(StoreError) -> [StoredDevice]
}
