internal import Carillon
internal import Foundation
internal import PushGateway
internal import PushServer
internal import PushStore

/// The files of a new service: its configuration, its first key and, for a trial, certificates and
/// scripts that run it beside a simulator of Apple's service.
struct ServiceSetup: Sendable {
  /// The path without a slash at its end.
  var directory: String
  var isTrial: Bool
  /// Of the API; the admin listener has the next one, and a trial's simulator the one after.
  var port: Int
  /// The path of this program, for the scripts.
  var program: String

  init(directory: String, isTrial: Bool, port: Int, program: String) {
    self.directory = directory.count > 1 && directory.hasSuffix("/") ? String(directory.dropLast()) : directory
    (self.isTrial, self.port, self.program) = (isTrial, port, program)
  }

  static let app = "news"
  static let topic = "com.example.news"

  var configurationFile: String { "\(directory)/carillon.yaml" }
  var keyFile: String { "\(directory)/api.key" }

  /// Makes the directory and its files. An existing configuration or key is not replaced.
  ///
  /// - Throws: ``CarillonError``.
  func write() async throws(CarillonError) {
    let files = FileManager.default
    for file in [configurationFile, keyFile] where files.fileExists(atPath: file) {
      throw CarillonError(.configuration, "\(file) exists; name another folder, or remove it.")
    }
    do { try files.createDirectory(atPath: directory, withIntermediateDirectories: true) } catch {
      throw CarillonError(.output, "\(directory) cannot be made; check the path and its permissions.")
    }
    try write(SetupText.configuration(self), to: configurationFile, mode: 0o644)
    if isTrial { try writeTrial() }
    let keys = try KeyStore(.file(nil), besides: configurationFile)
    let key = try await keys.create(name: "made by carillon init", scopes: Scope.allCases, reach: .all)
    try keys.close()
    try write(key.text + "\n", to: keyFile, mode: 0o600)
  }

  private func writeTrial() throws(CarillonError) {
    do {
      _ = try SimulatorMaterial.make(
        in: "\(directory)/certs", topics: [Self.topic], at: Int64(Date().timeIntervalSince1970))
    } catch {
      throw CarillonError(.output, "\(error)")
    }
    try write(SetupText.start(self), to: "\(directory)/start.sh", mode: 0o755)
    try write(SetupText.stop, to: "\(directory)/stop.sh", mode: 0o755)
  }

  /// The mode is set before the first byte is written.
  private func write(_ text: String, to path: String, mode: Int) throws(CarillonError) {
    do {
      guard FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: mode]) else {
        throw CocoaError(.fileWriteUnknown)
      }
      let handle = try FileHandle(forWritingTo: URL(filePath: path))
      try handle.write(contentsOf: Data(text.utf8))
      try handle.close()
    } catch {
      throw CarillonError(.output, "\(path) cannot be written; check its permissions and the space on its disk.")
    }
  }

  var nextSteps: String { SetupText.nextSteps(self) }
}
