internal import ArgumentParser
internal import Carillon
internal import PushWire

struct PayloadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "payload", abstract: "Checks payloads before they are sent.", subcommands: [Check.self])

  struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Lists errors and doubtful places in a payload.",
      discussion: """
        Checks that the file is a JSON object with aps (or mdm), that every documented key has a value of the \
        right type, and that the size is allowed.
        Placeholders such as {{name}} are allowed, and count as one character.

          carillon payload check hello.json --command 2 --priority 5
          carillon payload check hello.json --push-type background

        Exit status: 0 no errors (there may be warnings), 1 it would be refused, 2 the file cannot be read.
        """)

    @Argument(help: "The payload, a JSON file.") var file: String
    @Option(
      help: .init(
        "The frame version of the binary protocol: 0 and 1 allow 256 bytes, 2 allows 2048 (default: 2).",
        valueName: "0|1|2"))
    var command: Int?
    @Option(
      help: .init(
        "Checks it as an HTTP/2 notification of this type: 4096 bytes, VoIP 5120 (default: the binary protocol).",
        valueName: "type")) var pushType: PushType?
    @Flag(help: "Checks it as a broadcast to a channel: type liveactivity, 5120 bytes.") var broadcast = false
    @Option(help: .init("The priority of the notification (default: none).", valueName: "1|5|10")) var priority: Int?
    @Flag(help: "Prints one JSON object on standard output.") var json = false

    /// What the flags ask for. In run(), so that an unknown flag is reported before a missing one.
    private func purpose() throws -> PayloadCheck.Purpose {
      let frames = try command.map(Options.command)
      guard broadcast || pushType != nil else {
        if try Options.priority(priority) == 1 { throw ValidationError("--priority 1 needs HTTP/2: add --push-type.") }
        return .frame(frames ?? .framed)
      }
      let flag = broadcast ? "--broadcast" : "--push-type"
      try Options.exclude([("--command", command != nil)], flag, because: "\(flag) is for HTTP/2")
      guard broadcast else { return .notification(pushType ?? .alert) }
      if let pushType, pushType != .liveActivity {
        throw ValidationError("--broadcast needs the push type liveactivity, not \(pushType.rawValue).")
      }
      return .broadcast
    }

    func run() throws {
      let check = try PayloadCheck(file: file, for: purpose(), priority: Options.priority(priority))
      StandardStream.output.writeLine(json ? check.json : Self.text(check))
      if !check.isGood { throw ExitStatus.findings }
    }

    private static func text(_ check: PayloadCheck) -> String {
      var lines = check.findings.map(\.description)
      let size =
        "\(check.byteCount) of \(check.transport.payloadLimit) bytes for "
        + "\(name(check.transport))\(check.columns.isEmpty ? "" : " with placeholders of one character")"
      lines.append(check.isGood ? "\(check.file) is good: \(size)." : "\(check.file) would be refused.")
      if !check.columns.isEmpty {
        lines.append("Columns that the token file needs: \(check.columns.joined(separator: ", ")).")
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
  }
}
