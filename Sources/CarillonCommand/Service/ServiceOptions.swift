internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushSend
internal import PushServer
internal import PushTransport

/// How a command finds the service, and its key: `@OptionGroup var service: ServiceOptions`.
struct ServiceOptions: ParsableArguments {
  @Option(help: .init("The configuration of the service, on the same machine.", valueName: "file"))
  var config: String?
  @Option(help: .init("Where the service is, such as http://127.0.0.1:8480 (instead of --config).", valueName: "url"))
  var url: String?
  @Option(
    help: .init(
      "The authorities that an https service's certificate may have (default: the system's).", valueName: "file"))
  var trust: String?
  @Option(
    help: .init(
      "A file with a key (default: $CARILLON_KEY, then api.key beside the configuration).", valueName: "file"))
  var keyFile: String?

  @Flag(help: "Send the key over http to another machine, where everybody on the way can read it.")
  var plainHttp = false

  func validate() throws {
    guard (config == nil) != (url == nil) else {
      throw ValidationError("Name the running service by --config FILE or --url URL, such as http://127.0.0.1:8480.")
    }
    if plainHttp { try Options.require("--url", for: [("--plain-http", url == nil)]) }
    if trust != nil { try Options.require("--url", for: [("--trust", url == nil)]) }
  }

  func client() throws -> APIClient { try APIClient(try address(), key: try key()) }

  private func address() throws -> ServiceAddress {
    if let url {
      guard let address = ServiceAddress(url: url, trust: trust.map { .file($0) } ?? .system) else {
        throw CommandFailure.usage("--url must be http://HOST:PORT or https://HOST:PORT, not \"\(url)\"")
      }
      guard address.proof != .none || address.isLoopback || plainHttp else {
        throw CommandFailure.usage(
          "--url \(url) would send the key readable over the network; use https, or a tunnel to 127.0.0.1; "
            + "--plain-http sends it all the same")
      }
      return address
    }
    let address = ServiceAddress(of: try ServerFile.read(config ?? ""))
    guard address.port != 0 else {
      throw CommandFailure.usage("\(config ?? "") listens on any free port, so --url must name the service")
    }
    return address
  }

  private func key() throws -> String {
    if let keyFile { return try read(keyFile) }
    if let key = ProcessInfo.processInfo.environment["CARILLON_KEY"], !key.isEmpty {
      return try checked(key, "CARILLON_KEY")
    }
    if let config {
      let beside = FilePath.resolve("api.key", besides: config)
      if FileManager.default.fileExists(atPath: beside) { return try read(beside) }
    }
    throw CommandFailure.usage(
      "the service asks for a key: name a file with one by --key-file, or set CARILLON_KEY; "
        + "\"carillon key create\" makes a key")
  }

  private func read(_ path: String) throws -> String {
    var status = stat()
    if unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_mode & 0o077 != 0 {
      let mode = String(status.st_mode & 0o777, radix: 8)
      throw CommandFailure.usage("\(path) can be read by others (mode \(mode)); run: chmod 600 \(path)")
    }
    return try checked(String(decoding: try TextFile.read(path, byteLimit: 4096), as: UTF8.self), path)
  }

  private func checked(_ text: String, _ place: String) throws -> String {
    let text = text.trimmingCharacters(in: .whitespacesAndNewlines)
    guard APIKey(text) != nil else { throw CommandFailure.usage("\(place) holds no key of the form car_…") }
    return text
  }
}
