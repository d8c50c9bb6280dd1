internal import ArgumentParser
internal import Carillon
internal import PushTransport
internal import PushWire

/// The broadcast channels of one app, at the service that manages them.
struct ChannelService: Sendable {
  /// Whether absent devices get the latest broadcast later: `message-storage-policy`.
  enum Storage: String, CaseIterable, ExpressibleByArgument { case none, last }

  private let bundle: String
  private let endpoint: Endpoint
  private let credential: ResolvedCredential

  private static let timeout = Duration.seconds(30)

  /// Reads the credential of an app that speaks HTTP/2.
  ///
  /// - Parameters:
  ///   - endpoint: nil: Apple's, for the environment of the app.
  ///   - unixSeconds: the time at which a certificate must be valid.
  init(for app: AppConfiguration, at endpoint: Endpoint?, unixSeconds: Int64) throws(CarillonError) {
    var app = app
    self.endpoint = endpoint ?? app.environment.channelGateway
    app.gateway = AppConfiguration.Gateway(self.endpoint)
    credential = try ResolvedCredential.resolve(app, registry: ProviderTokenRegistry(), validAt: unixSeconds)
    var headers = ProviderHeaders(topic: app.topic, pushType: .liveActivity)
    headers.channelIdentifier = ""
    guard let bundle = headers.bundleIdentifier(for: credential.kind) else {
      throw CarillonError(.configuration, "the topic is missing: the certificate names no app")
    }
    self.bundle = bundle
  }

  /// Makes a channel. Returns its identifier.
  func create(storing storage: Storage) async throws(CarillonError) -> String {
    let body = JSONValue.object([
      JSONMember("message-storage-policy", .integer(storage == .none ? 0 : 1)),
      JSONMember("push-type", .string("LiveActivity")),
    ])
    guard let channel = try await ask("POST", body: body.encoded)["apns-channel-id"] else {
      throw CarillonError(.gateway, "The service created a channel, but did not return its identifier")
    }
    return channel
  }

  /// The identifiers of all channels of the app.
  func list() async throws(CarillonError) -> [String] {
    guard case .array(let values) = Self.value("channels", in: try await ask("GET", isForAll: true)) else {
      throw CarillonError(.gateway, "The service's list of channels cannot be read")
    }
    return values.compactMap { value -> String? in if case .string(let text) = value { text } else { nil } }
  }

  /// What a channel stores. It is an error if the app has no such channel.
  func storage(of channel: String) async throws(CarillonError) -> Storage {
    let reply = try await ask("GET", channel: channel)
    guard case .number(let policy) = Self.value("message-storage-policy", in: reply) else {
      throw CarillonError(.gateway, "The service's answer about the channel cannot be read")
    }
    return policy == "0" ? .none : .last
  }

  func delete(_ channel: String) async throws(CarillonError) { _ = try await ask("DELETE", channel: channel) }

  /// - Parameters:
  ///   - isForAll: all of the app's channels, not one.
  ///   - channel: the one that is asked about.
  private func ask(
    _ method: String, isForAll: Bool = false, channel: String? = nil, body: [UInt8] = []
  ) async throws(CarillonError) -> HTTP2Reply {
    // A request is traced by its identifier, as a notification is by its apns-id.
    let identifier = APNSIdentifier(
      high: .random(in: 0 ... .max) & ~0xF000 | 0x4000, low: .random(in: 0 ... .max) & ~(3 << 62) | 2 << 62)
    var fields = [HTTP2Field("apns-request-id", identifier.description, isIndexed: false)]
    if let channel { fields.append(HTTP2Field("apns-channel-id", channel, isIndexed: false)) }
    let template = RequestTemplate(
      method: method, authority: endpoint.authority,
      path: "/1/apps/\(bundle)/\(isForAll ? "all-channels" : "channels")", fields: fields, payload: body)
    let reply = try await ProviderExchange.run(
      template, authorization: try authorization(), to: endpoint, through: credential.dialer(to: endpoint),
      timeout: Self.timeout)
    guard (200..<300).contains(reply.status) else {
      let reason = ProviderErrorBody(parsing: reply.body).reason
      let text = unsafe reply.body.withUnsafeBytes { unsafe ProviderErrorBody.reasonText(in: $0) }
      let refusal = ProviderRefusal(status: reply.status, reason: reason, otherReason: text)
      throw CarillonError(
        .refused, "\(endpoint) refused the request: \(refusal)\(reason.flatMap(Self.advice).map { ": \($0)" } ?? "").")
    }
    return reply
  }

  private func authorization() throws(CarillonError) -> String? {
    guard let tokens = credential.tokens else { return nil }
    switch tokens.token(now: Instant(nanoseconds: 0), unixSeconds: Int64(NIOLoop.wallClock)) {
    case .token(let token): return token.authorization
    case .wait: throw CarillonError(.gateway, "No provider token can be made now")
    case .failed(let error): throw CarillonError(describing: error)
    }
  }

  /// What a person can do about it.
  private static func advice(_ reason: ProviderReason) -> String? {
    switch reason {
    case .featureNotEnabled:
      "broadcasts are switched on for the app in the developer account, under its capability Push Notifications"
    case .channelNotRegistered: "the app has no such channel in this environment"
    case .badChannelIdentifier: "that is no channel's identifier"
    case .cannotCreateChannel: "an app can have 10,000 channels in an environment: delete some"
    case .topicMismatch, .topicDisallowed: "the credential is not for this app"
    case .invalidProviderToken: "check key, key ID, team ID and this machine's clock"
    default: nil
    }
  }

  /// A key of the object that a reply consists of.
  private static func value(_ key: String, in reply: HTTP2Reply) -> JSONValue? {
    let parsed = unsafe reply.body.withUnsafeBytes { bytes -> JSONValue? in
      do throws(JSONError) { return try unsafe JSONValue(parsing: bytes) } catch { return nil }
    }
    guard case .object(let members) = parsed else { return nil }
    return members.first { $0.key == key }?.value
  }
}

extension PushEnvironment {
  /// Where channels are managed (HTTP2ProviderAPI.md, section 6).
  fileprivate var channelGateway: Endpoint {
    switch self {
    case .production: Endpoint(host: "api-manage-broadcast.push.apple.com", port: 2196)
    case .sandbox: Endpoint(host: "api-manage-broadcast.sandbox.push.apple.com", port: 2195)
    }
  }
}
