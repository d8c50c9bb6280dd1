internal import Carillon
internal import Foundation
internal import PushTransport

/// Notices that files have changed: their content, not only their dates.
struct FileWatch {
  private var looks: [String: FileState]
  private var digests: [String: [UInt8]?]
  /// What the last look found, and the one before did not.
  private var unsettled: [String: FileState]?

  /// A file above this is no configuration and no credential.
  private static let byteLimit = 4 << 20

  init(_ paths: [String]) {
    looks = Self.look(at: paths)
    digests = Dictionary(paths.map { ($0, Self.digest($0)) }) { first, _ in first }
  }

  /// Looks again. A change counts when a second look finds it too: the first may see half a file.
  ///
  /// - Parameter paths: the files to watch from now on. A new one is no change.
  /// - Returns: the files whose content is another.
  mutating func changes(_ paths: [String]) -> [String] {
    let now = Self.look(at: paths)
    for path in paths where looks[path] == nil {
      looks[path] = now[path]
      digests[path] = Self.digest(path)
    }
    guard now != looks.filter({ now[$0.key] != nil }) else {
      unsettled = nil
      return []
    }
    guard unsettled == now else {
      unsettled = now
      return []
    }
    unsettled = nil
    var changed: [String] = []
    for path in paths where now[path] != looks[path] {
      let digest = Self.digest(path)
      if digests[path] != .some(digest) { changed.append(path) }
      digests[path] = digest
    }
    looks = now
    return changed
  }

  private static func look(at paths: [String]) -> [String: FileState] {
    Dictionary(paths.map { ($0, FileState(of: $0)) }) { first, _ in first }
  }

  /// Nil: it cannot be read.
  private static func digest(_ path: String) -> [UInt8]? {
    guard let handle = FileHandle(forReadingAtPath: path) else { return nil }
    defer { try? handle.close() }
    return (try? handle.read(upToCount: byteLimit)).map { Digest.sha256(Array($0)) }
  }
}

extension ServerConfiguration {
  /// The files that the configuration names, and that are read again by a reload.
  var credentialFiles: [String] {
    var files: [String] = []
    for tenant in tenants {
      files += tenant.app.credentialFiles + tenant.bridgeClients.filter { !BridgeDirectory.isDigest($0) }
    }
    if let bridge { files += bridge.files }
    if let api = api.certificate { files += [api.certificate, api.key, api.passphraseFile].compactMap { $0 } }
    return Set(files).sorted()
  }
}
