internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// A gateway in Python (`ForeignGateway.py`) as a child process. It shares neither protocol nor TLS
/// code with the engine.
struct ForeignGateway {
  /// How often it accepted and refused each token.
  struct Record {
    var accepted: [TokenBytes: Int] = [:]
    var refused: [TokenBytes: Int] = [:]
    /// Its totals, such as "accepted", "connections", "violations".
    var sums: [String: Int] = [:]
  }

  static let topic = "com.example.foreign"

  let port: Int
  let certificates: CertificateMaker.Files
  private let directory: URL
  private let process: ChildProcess

  /// - Parameter behaviour: JSON; see `ForeignGateway.py`.
  init(_ behaviour: String) async throws {
    directory = FileManager.default.temporaryDirectory.appending(path: "carillon-foreign-\(UUID().uuidString)")
    let folder = directory.path(percentEncoded: false)
    certificates = try CertificateMaker.makeAll(
      in: folder, topics: [Self.topic], at: Int64(Date().timeIntervalSince1970))
    let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "ForeignGateway.py").path(
      percentEncoded: false)
    process = try ChildProcess(
      [
        script, certificates.server.certificate, certificates.server.key ?? "", certificates.authority,
        "\(folder)/record", behaviour,
      ], program: "python3")
    guard let line = await process.line(0), let port = Self.sums(line)["port"] else {
      try? FileManager.default.removeItem(at: directory)
      throw NotStarted()
    }
    self.port = port
  }

  struct NotStarted: Error {}

  /// Stops the gateway, removes its files and returns its record.
  func stop() async throws -> Record {
    defer { try? FileManager.default.removeItem(at: directory) }
    process.send(SIGTERM)
    _ = await process.ending()
    var record = Record()
    record.sums = await process.line(1).map(Self.sums) ?? [:]
    let text = try String(contentsOf: directory.appending(path: "record"), encoding: .utf8)
    for line in text.split(separator: "\n") {
      let fields = line.split(separator: " ")
      guard fields.count == 3, let token = try? TokenBytes(parsing: String(fields[0])) else { continue }
      record.accepted[token] = Int(fields[1])
      record.refused[token] = Int(fields[2])
    }
    return record
  }

  func dialer() throws -> SocketDialer {
    let files = try #require(certificates.apps[Self.topic])
    let credential = try Credential.load(files, validAt: nil)
    let context = try TLSContext(
      client: TLSClientConfiguration(credential: credential, trust: .file(certificates.authority)))
    return SocketDialer(host: "127.0.0.1", port: port, context: context)
  }

  private static func sums(_ json: String) -> [String: Int] {
    (try? JSONDecoder().decode([String: Int].self, from: Data(json.utf8))) ?? [:]
  }
}
