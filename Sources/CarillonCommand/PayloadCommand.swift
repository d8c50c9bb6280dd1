internal import ArgumentParser
internal import Carillon
internal import PushEngine
internal import PushWire

struct PayloadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "payload", abstract: "Looks at payloads before they are sent.", subcommands: [Check.self])

  struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Says what is wrong with a payload, or looks wrong.",
      discussion: """
        Checks that the file is a JSON object with aps (or mdm), that every documented key has a value of the \
        right kind, and that its size is allowed.
        Placeholders such as {{name}} are allowed, and count as one character.

          carillon payload check hello.json --command 2 --priority 5
          carillon payload check hello.json --push-type background

        Exit status: 0 nothing is wrong (there may be warnings), 1 it would be refused, 2 the file cannot be read.
        """)

    @Argument(help: "The payload, a JSON file.") var file: String
    @Option(
      help: .init(
        "The frame layout it is for: 0 and 1 allow 256 bytes, 2 allows 2048 (default: 2).", valueName: "0|1|2"))
    var command: Int?
    @Option(
      help: .init(
        "It is for HTTP/2, as a notification of this type: 4096 bytes, VoIP 5120 (default: it is not).",
        valueName: "type")) var pushType: PushType?
    @Flag(help: "It is for a broadcast to a channel: liveactivity, 5120 bytes.") var broadcast = false
    @Option(help: .init("The priority it will be sent with (default: none).", valueName: "1|5|10")) var priority: Int?
    @Flag(help: "One JSON object on standard output.") var json = false

    /// Called first thing by run(), not by the parser: an unknown flag is to be named before a
    /// missing one.
    private func check() throws {
      if let command { _ = try Options.command(command) }
      if try Options.priority(priority) == 1, headers == nil {
        throw ValidationError("--priority 1 is for HTTP/2: say as what, by --push-type.")
      }
      if headers != nil, command != nil {
        throw ValidationError(
          "--command and \(broadcast ? "--broadcast" : "--push-type") exclude each other: it is for either.")
      }
      if broadcast, pushType != nil, pushType != .liveActivity {
        throw ValidationError("--broadcast is of the type liveactivity.")
      }
    }

    /// Those that it would be sent with over HTTP/2, with names that pass every check; nil for the
    /// binary protocol.
    private var headers: ProviderHeaders? {
      guard broadcast || pushType != nil else { return nil }
      var headers = ProviderHeaders(topic: "com.example.app", pushType: pushType ?? .liveActivity)
      if broadcast { (headers.channelIdentifier, headers.expiration) = ("a", 0) }
      headers.priority = priority.flatMap { UInt8(exactly: $0) }
      return headers
    }

    private func findings(_ sample: [UInt8]) throws -> [PayloadFinding] {
      guard let headers else {
        return Payload.check(sample, for: try transport, priority: try Options.priority(priority))
      }
      return headers.findings(
        payload: sample, credential: headers.pushType == .mdm ? .certificate(userIdentifier: nil, topics: []) : .token)
    }

    private var transport: PayloadTransport {
      get throws { try headers?.payloadTransport ?? .binary(Options.command(command ?? 2)) }
    }

    func run() throws {
      try check()
      let transport = try transport
      let template = try PayloadTemplate.read(file: file)
      let sample = template.sample
      let findings = try findings(sample)
      let isGood = !findings.contains { $0.severity == .error }
      StandardStream.output.writeLine(
        json ? object(template, transport, findings, isGood) : text(template, transport, findings, isGood))
      if !isGood { throw ExitStatus.findings }
    }

    private func text(
      _ template: PayloadTemplate, _ transport: PayloadTransport, _ findings: [PayloadFinding], _ isGood: Bool
    ) -> String {
      var lines = findings.map(\.description)
      let count = template.sample.count
      let size =
        "\(count) of \(transport.payloadLimit) bytes for "
        + "\(Self.name(transport))\(template.columns.isEmpty ? "" : " with placeholders of one character")"
      lines.append(isGood ? "\(file) is good: \(size)." : "\(file) would be refused.")
      if !template.columns.isEmpty {
        lines.append("Columns that the token file needs: \(template.columns.joined(separator: ", ")).")
      }
      return lines.joined(separator: "\n")
    }

    private static func name(_ transport: PayloadTransport) -> String {
      switch transport {
      case .binary(let command): "command \(command.rawValue)"
      case .http2: "HTTP/2"
      case .voip: "VoIP"
      case .broadcast: "a broadcast"
      }
    }

    private func object(
      _ template: PayloadTemplate, _ transport: PayloadTransport, _ findings: [PayloadFinding], _ isGood: Bool
    ) -> String {
      var json = JSONWriter()
      json.object {
        $0.field("file", file)
        $0.field("good", isGood)
        $0.field("bytes", template.sample.count)
        $0.field("limit", transport.payloadLimit)
        $0.field("columns", template.columns)
        $0.array("findings", findings) { finding, json in
          json.field("severity", finding.severity.rawValue)
          json.field("path", "\(finding.path)")
          json.field("sentence", finding.sentence)
        }
      }
      return json.text
    }
  }
}
