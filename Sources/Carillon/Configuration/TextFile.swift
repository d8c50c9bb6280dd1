internal import Foundation

/// Small files that people write: configurations, campaigns, payloads.
package enum TextFile {
  /// 16 MiB: a file above it is not what its flag asks for.
  package static let byteLimit = 16 << 20

  /// The bytes of a file.
  ///
  /// - Throws: an error that names the file and the system's reason.
  package static func read(_ path: String, byteLimit: Int = byteLimit) throws(ConfigurationError) -> [UInt8] {
    let bytes: [UInt8]
    do {
      let handle = try FileHandle(forReadingFrom: URL(filePath: path))
      defer { try? handle.close() }
      bytes = Array(try handle.read(upToCount: byteLimit + 1) ?? Data())
    } catch {
      throw ConfigurationError(
        file: path, problem: "cannot be read: \(reason(error)); check the path and its permissions")
    }
    if bytes.count > byteLimit {
      throw ConfigurationError(
        file: path,
        problem: "is larger than \(Quantity.describe(byteCount: byteLimit)), so it is not the file that is meant")
    }
    return bytes
  }

  private static func reason(_ error: any Error) -> String {
    let error = error as NSError
    switch CocoaError.Code(rawValue: error.code) {
    case .fileNoSuchFile where error.domain == NSCocoaErrorDomain,
      .fileReadNoSuchFile where error.domain == NSCocoaErrorDomain:
      return "there is no such file"
    case .fileReadNoPermission where error.domain == NSCocoaErrorDomain: return "permission denied"
    default: break
    }
    if let underlying = error.userInfo[NSUnderlyingErrorKey] as? NSError { return reason(underlying) }
    if error.domain == NSPOSIXErrorDomain, error.code == Int(EISDIR) { return "it is a folder" }
    return error.localizedDescription
  }
}
