package import PushTransport
internal import PushWire

/// Certificates and a token key for a simulator and its clients, made in a directory.
package struct SimulatorMaterial: Sendable {
  package let files: CertificateMaker.Files
  package let tokenKey: ServiceSettings.KeyFile
  /// The topics of the apps, in the order given.
  package let topics: [String]

  /// Makes an authority, a certificate for the server and for each topic, and a token key.
  ///
  /// - Parameter unixSeconds: Now.
  package static func make(
    in directory: String, topics: [String], at unixSeconds: Int64
  ) throws(CredentialError) -> SimulatorMaterial {
    SimulatorMaterial(
      files: try CertificateMaker.makeAll(in: directory, topics: topics, at: unixSeconds),
      tokenKey: try ServiceSettings.KeyFile.makeThrowAway(in: directory), topics: topics)
  }

  /// The paths as one JSON object.
  package var json: String {
    let apps = topics.map { topic in
      JSONValue.object(
        [JSONMember("topic", .string(topic))] + Self.members(files.apps[topic])
          + Self.members(files.appContainers[topic], "p12"))
    }
    return JSONValue.object([
      JSONMember("authority", .string(files.authority)), JSONMember("server", .object(Self.members(files.server))),
      JSONMember("apps", .array(apps)), tokenKey.member,
    ]).text
  }

  private static func members(_ files: CredentialFiles?, _ name: String = "certificate") -> [JSONMember] {
    let paths = [(name, files?.certificate), ("key", files?.key), ("passphraseFile", files?.passphraseFile)]
    return paths.compactMap { key, path in path.map { JSONMember(key, .string($0)) } }
  }
}

extension GatewaySimulator {
  /// The ports, and the token key that was made for this run, as one JSON object.
  package var readyJSON: String {
    var members = [
      JSONMember("event", .string("ready")), JSONMember("gateway", .integer(gatewayPort)),
      JSONMember("feedback", .integer(feedbackPort)),
    ]
    if let http2Port { members.append(JSONMember("http2", .integer(http2Port))) }
    if let channelsPort { members.append(JSONMember("channels", .integer(channelsPort))) }
    if http2Port != nil || channelsPort != nil, let throwAwayKey { members.append(throwAwayKey.member) }
    return JSONValue.object(members).text
  }
}

extension ServiceSettings.KeyFile {
  fileprivate var member: JSONMember {
    JSONMember(
      "tokenKey",
      .object([
        JSONMember("file", .string(file)), JSONMember("keyId", .string(keyIdentifier)),
        JSONMember("teamId", .string(teamIdentifier)),
      ]))
  }
}

extension JSONValue {
  fileprivate var text: String { String(decoding: encoded, as: UTF8.self) }
}
