internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// A gateway in Python or Go as a child process. It shares neither protocol nor TLS code with the
/// engine.
struct ForeignGateway {
  enum Program: String, Sendable {
    /// The binary protocol.
    case gateway = "ForeignGateway.py"
    /// HTTP/2 by python3-h2, and by Go's standard library.
    case pythonProvider = "ForeignProvider.py"
    case goProvider = "ForeignProvider.go"

    /// What runs it, and its first arguments.
    fileprivate func command(in folder: String) async throws -> (program: String, arguments: [String]) {
      let path = URL(filePath: #filePath).deletingLastPathComponent().appending(path: rawValue).path(
        percentEncoded: false)
      switch self {
      case .gateway: return ("python3", [path])
      // The modules of Debian's packages are those of Debian's Python.
      case .pythonProvider: return ("/usr/bin/python3", [path])
      case .goProvider:
        let build = try await ChildProcess.run(
          ["build", "-o", "\(folder)/provider", path], program: "go",
          preparation: "export GOCACHE='\(folder)/cache'; exec")
        guard build.status == 0 else { throw NotStarted(output: build.errors) }
        return ("\(folder)/provider", [])
      }
    }
  }

  /// How often it accepted and refused each token.
  struct Record {
    var accepted: [TokenBytes: Int] = [:]
    var refused: [TokenBytes: Int] = [:]
    /// Its totals, such as "accepted", "connections", "violations".
    var sums: [String: Int] = [:]
  }

  let topic: String
  let port: Int
  let certificates: CertificateMaker.Files
  private let directory: URL
  private let process: ChildProcess

  /// - Parameter behaviour: JSON; see the program.
  init(_ behaviour: String, _ program: Program = .gateway, topic: String = "com.example.foreign") async throws {
    self.topic = topic
    directory = FileManager.default.temporaryDirectory.appending(path: "carillon-foreign-\(UUID().uuidString)")
    let folder = directory.path(percentEncoded: false)
    certificates = try CertificateMaker.makeAll(
      in: folder, topics: [topic], at: Int64(Date().timeIntervalSince1970))
    let command = try await program.command(in: folder)
    process = try ChildProcess(
      command.arguments + [
        certificates.server.certificate, certificates.server.key ?? "", certificates.authority, "\(folder)/record",
        behaviour,
      ], program: command.program)
    guard let line = await process.line(0), let port = Self.sums(line)["port"] else {
      try? FileManager.default.removeItem(at: directory)
      throw NotStarted(output: "")
    }
    self.port = port
  }

  struct NotStarted: Error { let output: String }

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

  /// - Parameter protocols: those of ALPN.
  func dialer(protocols: [String] = []) throws -> SocketDialer {
    let files = try #require(certificates.apps[topic])
    let credential = try Credential.load(files, validAt: nil)
    var client = TLSClientConfiguration(credential: credential, trust: .file(certificates.authority))
    client.applicationProtocols = protocols
    return SocketDialer(host: "127.0.0.1", port: port, context: try TLSContext(client: client))
  }

  private static func sums(_ json: String) -> [String: Int] {
    (try? JSONDecoder().decode([String: Int].self, from: Data(json.utf8))) ?? [:]
  }
}
