internal import PushTransport
package import PushWire

/// Why the service of channels did not do what it was asked.
package struct ChannelFailure: Error {
  package let error: CarillonError
  /// What it answered; nil: it is another reason.
  package var reason: ProviderReason?
}

/// The broadcast channels of one app, at the service that manages them (HTTP2ProviderAPI.md,
/// section 6).
package struct ChannelService: Sendable {
  /// Whether absent devices get the latest broadcast later: `message-storage-policy`.
  package enum Storage: String, CaseIterable, Sendable { case none, last }

  private let bundle: String
  private let endpoint: Endpoint
  private let credential: ResolvedCredential
  /// Of the app's engine; nil: each request has a thread of its own.
  private let loop: (any Loop)?
  /// The time of day.
  private let unixSeconds: @Sendable () -> Int64

  private static let timeout = Duration.seconds(30)

  /// Reads the credential of an app that speaks HTTP/2.
  ///
  /// - Parameters:
  ///   - endpoint: nil: the one that the app names, or Apple's for its environment.
  ///   - unixSeconds: now; a certificate must be valid.
  package init(for app: AppConfiguration, at endpoint: Endpoint?, unixSeconds: Int64) throws(CarillonError) {
    let endpoint = if let endpoint { endpoint } else { try app.channelServiceOrDefault() }
    var settings = app
    // Whether its name is checked by the system's authorities depends on it.
    settings.gateway = AppConfiguration.Gateway(endpoint)
    let credential = try ResolvedCredential.resolve(
      settings, registry: ProviderTokenRegistry(), validAt: unixSeconds)
    try self.init(app, credential, at: endpoint, on: nil) { unixSeconds }
  }

  init(
    _ app: AppConfiguration, _ credential: ResolvedCredential, at endpoint: Endpoint, on loop: (any Loop)?,
    unixSeconds: @escaping @Sendable () -> Int64
  ) throws(CarillonError) {
    (self.endpoint, self.credential, self.loop, self.unixSeconds) = (endpoint, credential, loop, unixSeconds)
    var headers = ProviderHeaders(topic: app.topic, pushType: .liveActivity)
    headers.channelIdentifier = ""
    guard let bundle = headers.bundleIdentifier(for: credential.kind) else {
      throw CarillonError(.configuration, "the topic is missing: the certificate names no app")
    }
    self.bundle = bundle
  }

  /// Makes a channel. Returns its identifier.
  package func create(storing storage: Storage) async throws(ChannelFailure) -> String {
    let body = JSONValue.object([
      JSONMember("message-storage-policy", .integer(storage == .none ? 0 : 1)),
      JSONMember("push-type", .string("LiveActivity")),
    ])
    guard let channel = try await ask("POST", body: body.encoded)["apns-channel-id"] else {
      throw Self.unreadable("The service created a channel, but did not return its identifier")
    }
    return channel
  }

  /// The identifiers of all channels of the app.
  package func list() async throws(ChannelFailure) -> [String] {
    guard case .array(let values) = Self.value("channels", in: try await ask("GET", isForAll: true)) else {
      throw Self.unreadable("The service's list of channels cannot be read")
    }
    return values.compactMap { value -> String? in if case .string(let text) = value { text } else { nil } }
  }

  /// What a channel stores. It is an error if the app has no such channel.
  package func storage(of channel: String) async throws(ChannelFailure) -> Storage {
    let reply = try await ask("GET", channel: channel)
    guard case .number(let policy) = Self.value("message-storage-policy", in: reply) else {
      throw Self.unreadable("The service's answer about the channel cannot be read")
    }
    return policy == "0" ? .none : .last
  }

  package func delete(_ channel: String) async throws(ChannelFailure) { _ = try await ask("DELETE", channel: channel) }

  private static func unreadable(_ sentence: String) -> ChannelFailure {
    ChannelFailure(error: CarillonError(.gateway, sentence))
  }

  /// - Parameters:
  ///   - isForAll: all of the app's channels, not one.
  ///   - channel: the one that is asked about.
  private func ask(
    _ method: String, isForAll: Bool = false, channel: String? = nil, body: [UInt8] = []
  ) async throws(ChannelFailure) -> HTTP2Reply {
    // A request is traced by its identifier, as a notification is by its apns-id.
    let identifier = APNSIdentifier(
      high: .random(in: 0 ... .max) & ~0xF000 | 0x4000, low: .random(in: 0 ... .max) & ~(3 << 62) | 2 << 62)
    var fields = [HTTP2Field("apns-request-id", identifier.description, isIndexed: false)]
    if let channel { fields.append(HTTP2Field("apns-channel-id", channel, isIndexed: false)) }
    let template = RequestTemplate(
      method: method, authority: endpoint.authority,
      path: "/1/apps/\(bundle)/\(isForAll ? "all-channels" : "channels")", fields: fields, payload: body)
    let reply: HTTP2Reply
    do throws(CarillonError) {
      reply = try await ProviderExchange.run(
        template, authorization: try authorization(), to: endpoint, through: credential.dialer(to: endpoint),
        timeout: Self.timeout, on: loop)
    } catch { throw ChannelFailure(error: error) }
    guard (200..<300).contains(reply.status) else {
      let reason = ProviderErrorBody(parsing: reply.body.span).reason
      let text = ProviderErrorBody.reasonText(in: reply.body.span)
      let refusal = ProviderRefusal(status: reply.status, reason: reason, otherReason: text)
      let advice = reason.flatMap(Self.advice).map { ": \($0)" } ?? ""
      throw ChannelFailure(
        error: CarillonError(.refused, "\(endpoint) refused the request: \(refusal)\(advice)."), reason: reason)
    }
    return reply
  }

  private func authorization() throws(CarillonError) -> String? {
    guard let tokens = credential.tokens else { return nil }
    switch tokens.token(now: loop?.now ?? .start, unixSeconds: unixSeconds()) {
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
    guard case .object(let members)? = try? JSONValue(parsing: reply.body[...]) else { return nil }
    return members.first { $0.key == key }?.value
  }
}

extension PushApp {
  /// The app's broadcast channels, at the service that its configuration names, else at Apple's.
  /// Requests show its credential, and go through its proxy.
  ///
  /// - Throws: ``CarillonError/ErrorCode/configuration`` if the app speaks the binary protocol, or
  ///   nothing says where its channels are; ``CarillonError/ErrorCode/credential`` if that cannot
  ///   be used.
  package func channels() async throws(CarillonError) -> ChannelService {
    let (configuration, credential) = (entry.configuration, entry.credential)
    let endpoint = try configuration.channelServiceOrDefault()
    if let defect = credential.defect { throw CarillonError(.credential, defect.reason) }
    let engine = try await core.runtime(of: entry, evenIfStopped: true).engine
    return try ChannelService(configuration, credential, at: endpoint, on: engine.loop) {
      engine.wallClockMilliseconds() / 1000
    }
  }
}
