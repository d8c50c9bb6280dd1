internal import Foundation
internal import PushTransport
internal import PushWire
internal import Testing

/// A gateway in Python (`ForeignGateway.py`) as a child process. It shares neither protocol nor TLS
/// code with the engine.
struct ForeignGateway {
  /// How often it accepted and refused each token.
  struct Record {
    var accepted: [DeviceToken: Int] = [:]
    var refused: [DeviceToken: Int] = [:]
    /// Its totals, such as "accepted", "connections", "violations".
    var sums: [String: Int] = [:]
  }

  static let topic = "com.example.foreign"

  let port: Int
  let certificates: CertificateMaker.Files
  private let directory: URL
  private let process = Process()
  private let output = Pipe()

  /// - Parameter behaviour: JSON; see `ForeignGateway.py`.
  init(_ behaviour: String) throws {
    directory = FileManager.default.temporaryDirectory.appending(path: "carillon-foreign-\(UUID().uuidString)")
    let folder = directory.path(percentEncoded: false)
    certificates = try CertificateMaker.makeAll(
      in: folder, topics: [Self.topic], at: Int64(Date().timeIntervalSince1970))
    let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "ForeignGateway.py").path(
      percentEncoded: false)
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = [
      "python3", script, certificates.server.certificate, certificates.server.key ?? "", certificates.authority,
      "\(folder)/record", behaviour,
    ]
    process.standardOutput = output
    try process.run()
    guard let line = Self.line(output.fileHandleForReading), let port = Self.sums(line)["port"] else {
      process.terminate()
      try? FileManager.default.removeItem(at: directory)
      throw NotStarted()
    }
    self.port = port
  }

  struct NotStarted: Error {}

  /// Stops the gateway, removes its files and returns its record.
  func stop() throws -> Record {
    defer { try? FileManager.default.removeItem(at: directory) }
    process.terminate()
    var record = Record()
    record.sums = Self.line(output.fileHandleForReading).map(Self.sums) ?? [:]
    let text = try String(contentsOf: directory.appending(path: "record"), encoding: .utf8)
    for line in text.split(separator: "\n") {
      let fields = line.split(separator: " ")
      guard fields.count == 3, let token = try? DeviceToken(parsing: String(fields[0])) else { continue }
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

  /// The bytes up to the next line end; nil if there is none.
  private static func line(_ handle: FileHandle) -> String? {
    var bytes = Data()
    while let byte = try? handle.read(upToCount: 1), !byte.isEmpty {
      if byte[byte.startIndex] == UInt8(ascii: "\n") { return String(decoding: bytes, as: UTF8.self) }
      bytes.append(byte)
    }
    return nil
  }

  private static func sums(_ json: String) -> [String: Int] {
    (try? JSONDecoder().decode([String: Int].self, from: Data(json.utf8))) ?? [:]
  }
}
