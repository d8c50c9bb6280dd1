internal import PushTransport
internal import PushWire

// Broadcast channels (HTTP2ProviderAPI, section 6): sending to them and managing them.
extension ServiceConnection {
  private static let broadcastPayloadLimit = 5120

  /// `POST /4/broadcasts/apps/<bundle>`
  func broadcastRequest(_ request: ServiceRequest) {
    isBroadcast = true
    let name = unsafe Text.string(UnsafeRawBufferPointer(rebasing: request.path.dropFirst(19)))
    guard ServiceTopic.isUsable(name), !name.isEmpty else {
      return self.refuse(request, self.app(of: request), ServiceRefusal(.badPath))
    }
    let app = self.app(named: name)
    func refuse(_ reason: ProviderReason) { self.refuse(request, app, ServiceRefusal(reason)) }

    guard unsafe Text.equal(request.method, "POST") else { return refuse(.methodNotAllowed) }
    if let refusal = checkCredential(request) { return self.refuse(request, app, refusal) }
    if request.hasDuplicate { return refuse(.duplicateHeaders) }
    if let reason = checkBundle(name, request) { return refuse(reason) }
    guard app.faults.allowsBroadcast else { return refuse(.featureNotEnabled) }
    var identifier: APNSIdentifier?
    if let text = unsafe request.identifier {
      identifier = unsafe APNSIdentifier(parsing: text)
      if identifier == nil { return refuse(.badMessageIdentifier) }
    }
    guard let type = unsafe request.pushType, type.count > 0 else { return refuse(.missingPushType) }
    guard unsafe Text.equal(type, "liveactivity") else { return refuse(.invalidPushType) }
    let channel: ChannelStore.Channel
    switch unsafe findChannel(request.channel, app: name) {
    case .success(let found): channel = found.channel
    case .failure(let refusal): return refuse(refusal.reason)
    }
    guard let expiration = unsafe request.expiration.flatMap({ unsafe Text.number($0) }),
      channel.storesMessages || expiration == 0
    else {
      return refuse(.badExpirationDate)
    }
    if let priority = unsafe request.priority,
      unsafe !(Text.equal(priority, "10") || Text.equal(priority, "5") || Text.equal(priority, "1"))
    {
      return refuse(.badPriority)
    }
    if let reason = checkPayload(request, limit: Self.broadcastPayloadLimit) { return refuse(reason) }
    decide(request, app, identifier: identifier)
  }

  /// `/1/apps/<bundle>/channels` and `/1/apps/<bundle>/all-channels`
  func channelRequest(_ request: ServiceRequest) {
    let path = unsafe Text.string(request.path)
    let parts = path.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
    let last = parts.last.map { $0.split(separator: "?", omittingEmptySubsequences: false).map(String.init) } ?? []
    guard parts.count == 5, parts[0].isEmpty, parts[1] == "1", parts[2] == "apps", !parts[3].isEmpty,
      ServiceTopic.isUsable(parts[3]), last.first == "channels" || last.first == "all-channels"
    else { return self.refuse(request, self.app(of: request), ServiceRefusal(.badPath)) }
    let name = parts[3]
    let app = self.app(named: name)
    func refuse(_ reason: ProviderReason) { self.refuse(request, app, ServiceRefusal(reason)) }

    let method = unsafe Text.string(request.method)
    let methods = last.first == "channels" ? ["POST", "GET", "DELETE"] : ["GET"]
    guard methods.contains(method) else { return refuse(.methodNotAllowed) }
    if let refusal = checkCredential(request) { return self.refuse(request, app, refusal) }
    if last.count > 1 { return refuse(.badRequestParameters) }
    if request.hasDuplicate { return refuse(.duplicateHeaders) }
    if let text = unsafe request.requestIdentifier, unsafe APNSIdentifier(parsing: text) == nil {
      return refuse(.badMessageIdentifier)
    }
    if let reason = checkBundle(name, request) { return refuse(reason) }
    guard app.faults.allowsBroadcast else { return refuse(.featureNotEnabled) }
    announce(normalLimit)

    if last.first == "all-channels" {
      let channels = service.channels.all(app: name)
      return answer(request, 200, body: JSONWriter.text { $0.field("channels", channels) })
    }
    if method == "POST" { return createChannel(request, app) }
    switch unsafe findChannel(request.channel, app: name) {
    case .failure(let refusal): refuse(refusal.reason)
    case .success(let found) where method == "GET":
      answer(
        request, 200,
        body: JSONWriter.text { json in
          json.field("message-storage-policy", found.channel.storesMessages ? 1 : 0)
          json.field("push-type", "LiveActivity")
        })
    case .success(let found):
      if service.channels.remove(found.identifier, app: name) {
        answer(request, 204)
      } else {
        refuse(.channelNotRegistered)
      }
    }
  }

  private func createChannel(_ request: ServiceRequest, _ app: ServiceApp) {
    func refuse(_ reason: ProviderReason) { self.refuse(request, app, ServiceRefusal(reason)) }
    if request.bodyByteCount == 0 { return refuse(.payloadEmpty) }
    let body: JSONValue
    do throws(JSONError) { body = try unsafe JSONValue(parsing: request.body) } catch {
      return refuse(.badRequestPayload)
    }
    guard case .object(let members) = body else { return refuse(.badRequestPayload) }
    guard let type = members.first(where: { $0.key == "push-type" })?.value else { return refuse(.missingPushType) }
    guard type == .string("LiveActivity") else { return refuse(.invalidPushType) }
    let policy = members.first { $0.key == "message-storage-policy" }?.value
    guard policy == .number("0") || policy == .number("1") else { return refuse(.badRequestPayload) }
    guard
      let identifier = service.channels.create(
        ChannelStore.Channel(storesMessages: policy == .number("1")), app: app.name)
    else {
      return refuse(.cannotCreateChannel)
    }
    answer(request, 201, channel: identifier)
  }

  private struct ChannelRefusal: Error { let reason: ProviderReason }

  private func findChannel(
    _ text: UnsafeRawBufferPointer?, app: String
  ) -> Result<(identifier: String, channel: ChannelStore.Channel), ChannelRefusal> {
    guard let text = unsafe text, text.count > 0 else {
      return .failure(ChannelRefusal(reason: .missingChannelIdentifier))
    }
    guard unsafe ChannelStore.isIdentifier(text) else { return .failure(ChannelRefusal(reason: .badChannelIdentifier)) }
    let identifier = unsafe Text.string(text)
    guard let channel = service.channels.channel(identifier, app: app) else {
      return .failure(ChannelRefusal(reason: .channelNotRegistered))
    }
    return .success((identifier, channel))
  }

  /// Checks that the client may act for the app in the path.
  private func checkBundle(_ name: String, _ request: ServiceRequest) -> ProviderReason? {
    if let token = token(of: request) {
      return token.key.topics.map { $0.contains(name) } ?? true ? nil : .topicMismatch
    }
    return client.topics?.contains(name) == true ? nil : .topicMismatch
  }

  private func answer(_ request: ServiceRequest, _ status: UInt16, channel: String? = nil, body: String = "") {
    let requestIdentifier =
      unsafe request.requestIdentifier.map { unsafe Text.string($0) } ?? newIdentifier().description
    var fields = [
      HTTP2Field("date", HTTPDate.text(unixSeconds)),
      HTTP2Field("apns-request-id", requestIdentifier, isIndexed: false),
    ]
    if let channel { fields.append(HTTP2Field("apns-channel-id", channel, isIndexed: false)) }
    session.respond(
      request.streamID, status: status, identifier: nil, fields: ResponseFields(fields), body: Array(body.utf8))
  }
}
