internal import PushTransport
internal import PushWire

// The rules for requests (HTTP2ProviderAPI, sections 2 to 5).
//
// A request can break several rules, and Apple's documents do not say which is reported. Here the
// order is path, method, credential, headers one by one, payload.
extension ServiceConnection {
  func notificationRequest(_ request: ServiceRequest) {
    if unsafe Text.hasPrefix(request.path, "/3/device") {
      deviceRequest(request)
    } else if unsafe Text.hasPrefix(request.path, "/4/broadcasts/apps/") {
      broadcastRequest(request)
    } else {
      refuse(request, app(of: request), ServiceRefusal(.badPath))
    }
  }

  private func deviceRequest(_ request: ServiceRequest) {
    let prefixCount = 10  // "/3/device/"
    if unsafe request.path.count > 9, unsafe request.path[9] != UInt8(ascii: "/") {
      return self.refuse(request, app(of: request), ServiceRefusal(.badPath))
    }
    let text = unsafe UnsafeRawBufferPointer(rebasing: request.path.dropFirst(prefixCount))
    tokenByteCount = unsafe decodeToken(text)
    let credentialRefusal = checkCredential(request)
    let route = self.route(of: request)
    let app = route.app
    func refuse(_ reason: ProviderReason) { self.refuse(request, app, ServiceRefusal(reason)) }

    guard unsafe Text.equal(request.method, "POST") else { return refuse(.methodNotAllowed) }
    if let credentialRefusal { return self.refuse(request, app, credentialRefusal) }
    if request.hasDuplicate { return refuse(.duplicateHeaders) }
    var identifier: APNSIdentifier?
    if let text = unsafe request.identifier {
      identifier = unsafe APNSIdentifier(parsing: text)
      if unsafe identifier == nil || isStrict && text.contains(where: { (0x41...0x5A).contains($0) }) {
        return refuse(.badMessageIdentifier)
      }
    }
    if let refusal = route.refusal { return self.refuse(request, app, refusal) }
    if text.count == 0 { return refuse(.missingDeviceToken) }
    if tokenByteCount == 0 || tokenByteCount != app.tokenByteCount ?? tokenByteCount { return refuse(.badDeviceToken) }
    if let reason = checkHeaders(request, needsPriorityFive: route.needsPriorityFive) { return refuse(reason) }
    if let reason = checkPayload(request, limit: route.payloadLimit) { return refuse(reason) }
    decide(request, app, identifier: identifier)
  }

  /// Decodes a token. Returns its number of bytes; 0: it is not a token.
  private func decodeToken(_ text: UnsafeRawBufferPointer) -> Int {
    do throws(DeviceTokenError) {
      let count = try unsafe TokenBytes.parse(text, into: tokenBytes)
      // The parser skips spaces and brackets. They are not allowed in a path.
      return count * 2 == text.count ? count : 0
    } catch { return 0 }
  }

  // MARK: The sender

  /// Nil: the client may send. A provider token takes precedence over the certificate.
  func checkCredential(_ request: ServiceRequest) -> ServiceRefusal? {
    guard let authorization = unsafe request.authorization, authorization.count > 0 else {
      guard let topics = client.topics else { return ServiceRefusal(.missingProviderToken) }
      if topics.isEmpty { return ServiceRefusal(.badCertificate) }
      return service.rules.isForOtherEnvironment(client.environments) ? ServiceRefusal(.badCertificateEnvironment) : nil
    }
    return unsafe tokens.check(authorization, now: now, unixSeconds: unixSeconds)
  }

  /// The provider token of a request; nil: the client sends by certificate.
  func token(of request: ServiceRequest) -> ServiceKeys.Token? {
    guard let authorization = unsafe request.authorization, authorization.count > 0 else { return nil }
    return tokens.current
  }

  func app(named name: String) -> ServiceApp {
    if let app = apps[name] { return app }
    // Bounds the memory: beyond 1024 apps on one connection, requests are counted with another app.
    if apps.count >= 1024, let app = apps.values.first { return app }
    let app = ServiceApp(name, service: service, now: now)
    apps[name] = app
    return app
  }

  // MARK: Topic and type

  func app(of request: ServiceRequest) -> ServiceApp { route(of: request).app }

  func route(of request: ServiceRequest) -> ServiceRoute {
    let token = token(of: request)
    if let lastRoute, token === routeToken, unsafe Self.same(routeTopic, request.topic),
      unsafe Self.same(routeType, request.pushType)
    {
      return lastRoute
    }
    let made = unsafe makeRoute(
      topic: request.topic.map { unsafe Text.string($0) }, type: request.pushType.map { unsafe Text.string($0) },
      token: token)
    lastRoute = made
    routeToken = token
    routeTopic = unsafe request.topic.map { unsafe Array($0) }
    routeType = unsafe request.pushType.map { unsafe Array($0) }
    return made
  }

  private static func same(_ known: [UInt8]?, _ bytes: UnsafeRawBufferPointer?) -> Bool {
    guard let known, let bytes = unsafe bytes else { return unsafe known == nil && bytes == nil }
    return unsafe known.holdsSameBytes(as: bytes) || known.isEmpty && bytes.count == 0
  }

  private func makeRoute(topic: String?, type: String?, token: ServiceKeys.Token?) -> ServiceRoute {
    let pushType = type.map { PushType(rawValue: $0) }
    var rules = ServiceTopic.of((pushType ?? .alert) ?? .alert)
    var topic = topic.flatMap { $0.isEmpty ? nil : $0 }
    // A certificate for one app implies the topic.
    if topic == nil, token == nil, let topics = client.topics, topics.count == 1 { topic = topics[0] }
    if type == nil, let topic { rules = ServiceTopic.of(suffixOf: topic) }
    let name =
      topic.flatMap { ServiceTopic.isUsable($0) ? ServiceTopic.app(of: $0) : nil } ?? client.topics?.first
      ?? Topic.anonymous
    func route(_ reason: ProviderReason?) -> ServiceRoute {
      ServiceRoute(
        app: app(named: name), refusal: reason.map { ServiceRefusal($0) }, payloadLimit: rules.payloadLimit,
        needsPriorityFive: rules.needsPriorityFive)
    }
    if case .some(.none) = pushType { return route(.invalidPushType) }
    guard let topic else { return route(.missingTopic) }
    guard ServiceTopic.isUsable(topic), topic.hasSuffix(rules.suffix), topic != rules.suffix || rules.suffix.isEmpty
    else { return route(.badTopic) }
    if let token {
      let isCovered = token.key.topics.map { $0.contains(topic) || $0.contains(name) } ?? true
      return route(isCovered && pushType != .mdm ? nil : .topicDisallowed)
    }
    if rules.needsToken { return route(.topicDisallowed) }
    if pushType == .mdm { return route(topic == client.userIdentifier ? nil : .topicDisallowed) }
    let topics = client.topics ?? []
    return route(topics.contains(topic) || topics.contains(name) ? nil : .topicDisallowed)
  }

  // MARK: Headers and payload

  private func checkHeaders(_ request: ServiceRequest, needsPriorityFive: Bool) -> ProviderReason? {
    if let priority = unsafe request.priority {
      let isFive = unsafe Text.equal(priority, "5")
      guard unsafe isFive || !needsPriorityFive && (Text.equal(priority, "10") || Text.equal(priority, "1")) else {
        return .badPriority
      }
    } else if needsPriorityFive {
      // The default priority is 10, which these types do not allow.
      return .badPriority
    }
    if let expiration = unsafe request.expiration, unsafe Text.number(expiration) == nil { return .badExpirationDate }
    if let collapse = unsafe request.collapseIdentifier, !(1...64).contains(collapse.count) {
      return .badCollapseIdentifier
    }
    return nil
  }

  func checkPayload(_ request: ServiceRequest, limit: Int) -> ProviderReason? {
    if request.bodyByteCount == 0 { return .payloadEmpty }
    if request.bodyByteCount > limit { return .payloadTooLarge }
    if service.checksJSON, unsafe !payloads.isValid(request.body) { return .badRequestPayload }
    return nil
  }
}
