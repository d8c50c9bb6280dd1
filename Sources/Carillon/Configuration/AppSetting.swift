package import PushWire

/// One setting of an app: its key in the configuration file, the values that it may have, and
/// whether a running app adopts a new one.
///
/// ``all`` is the one list of them. Reading a file, the checks of the library, a reload and
/// `carillon serve --check` go through it.
package struct AppSetting: Sendable {
  package typealias Path<Value> = WritableKeyPath<AppConfiguration, Value> & Sendable

  /// Where its value is, and what it may be.
  package enum Value: Sendable {
    case integer(any Path<Int>, ClosedRange<Int>)
    case byteCount(any Path<Int>, ClosedRange<Int>)
    case duration(any Path<Duration>, ClosedRange<Duration>)
    /// Nil: its default depends on other settings.
    case optionalInteger(any Path<Int?>, ClosedRange<Int>)
    /// Nil: no limit. Otherwise above 0.
    case rate(any Path<Double?>)
    case text(any Path<String?>)
    case file(any Path<String?>)
    case gateway(any Path<AppConfiguration.Gateway?>)
    /// Nil: none.
    case proxy(any Path<AppConfiguration.Proxy?>)
    case word(any Path<String>, [String])
  }

  /// In the configuration file: `batching.max-bytes` is `max-bytes` in the map `batching`.
  package let key: String
  package let value: Value
  /// Nil: it counts with every transport.
  package let transport: AppConfiguration.Transport.Name?
  /// A running app adopts another value. Otherwise it counts after the next start.
  package let isLive: Bool

  private init(
    _ key: String, _ value: Value, only transport: AppConfiguration.Transport.Name? = nil, isLive: Bool = false
  ) {
    (self.key, self.value, self.transport, self.isLive) = (key, value, transport, isLive)
  }

  /// The ranges that flags share with files.
  package enum Bounds {
    package static let connections = 1...1000
    /// A thousand a second is more than two cores can connect.
    package static let connectionsPerMinute = 1...1_000_000
    package static let patience = Duration.seconds(1) ... .seconds(604_800)
    package static let maxAge = Duration.seconds(1) ... .seconds(30 * 86_400)
    package static let quiet = Duration.milliseconds(10) ... .seconds(3600)
    package static let requestTimeout = Duration.milliseconds(100) ... .seconds(600)
    package static let batchDelay = Duration.zero ... .seconds(10)
  }

  /// All but `id` and `credential`. The transport is the first, because others depend on it.
  package static let all = [
    AppSetting("transport", .word(\.transportWord, AppConfiguration.Transport.Name.allCases.map(\.rawValue))),
    AppSetting("topic", .text(\.topic)),
    AppSetting("environment", .word(\.environmentWord, PushEnvironment.allCases.map(\.rawValue))),
    AppSetting("push-type", .word(\.pushTypeWord, PushWire.PushType.allCases.map(\.rawValue)), only: .http2),
    AppSetting("request-timeout", .duration(\.http2.requestTimeout, Bounds.requestTimeout), only: .http2),
    AppSetting("streams", .integer(\.http2.concurrentRequests, 1...RequestPolicy.streamCountLimit), only: .http2),
    AppSetting("ping-interval", .duration(\.http2.pingInterval, .seconds(1) ... .seconds(3600)), only: .http2),
    AppSetting("command", .word(\.commandWord, ["0", "1", "2"]), only: .binary),
    AppSetting("gateway", .gateway(\.gateway)),
    AppSetting("feedback.service", .gateway(\.feedbackService), only: .binary, isLive: true),
    AppSetting("channels.service", .gateway(\.channelService), only: .http2, isLive: true),
    AppSetting("trust", .file(\.trustedAuthorities)),
    AppSetting("proxy", .proxy(\.proxy), isLive: true),
    AppSetting("connections.min", .integer(\.leastConnections, Bounds.connections)),
    AppSetting("connections.max", .integer(\.mostConnections, Bounds.connections)),
    AppSetting("connections.per-minute", .optionalInteger(\.connectionsPerMinute, Bounds.connectionsPerMinute)),
    AppSetting("batching.max-bytes", .byteCount(\.batching.byteCount, 4 << 10...16 << 20)),
    AppSetting("batching.max-delay", .duration(\.batching.delay, Bounds.batchDelay)),
    AppSetting("window.notifications", .integer(\.window.notifications, 64...16_777_216)),
    AppSetting("window.bytes", .byteCount(\.window.bytes, 64 << 10...1 << 30)),
    AppSetting("settle.quiet", .duration(\.settling.quiet, Bounds.quiet), only: .binary),
    AppSetting("settle.confirm", .word(\.confirmWord, LanePolicy.Confirm.allCases.map(\.rawValue)), only: .binary),
    AppSetting("on-unknown", .word(\.onUnknownWord, LanePolicy.OnUnknown.allCases.map(\.rawValue))),
    AppSetting("attempts", .integer(\.attempts, 1...RequestPolicy.attemptCountLimit)),
    AppSetting("patience", .duration(\.patience, Bounds.patience), isLive: true),
    AppSetting("max-age", .duration(\.maxAge, Bounds.maxAge)),
    AppSetting("rate-limit", .rate(\.rateLimit), isLive: true),
    AppSetting("weight", .integer(\.weight, 1...100), isLive: true),
  ]

  /// Why a configuration cannot have its value, as the end of a sentence; nil if it can.
  func problem(in configuration: AppConfiguration) -> String? {
    func outside<Number: Comparable>(
      _ value: Number, _ range: ClosedRange<Number>, _ describe: (Number) -> String
    ) -> String? {
      range.contains(value)
        ? nil : "must be from \(describe(range.lowerBound)) to \(describe(range.upperBound)), not \(describe(value))"
    }
    switch value {
    case .integer(let path, let range): return outside(configuration[keyPath: path], range) { "\($0)" }
    case .byteCount(let path, let range):
      return outside(configuration[keyPath: path], range) { Quantity.describe(byteCount: $0) }
    case .duration(let path, let range): return outside(configuration[keyPath: path], range, Quantity.describe)
    case .optionalInteger(let path, let range):
      return configuration[keyPath: path].flatMap { outside($0, range) { "\($0)" } }
    case .rate(let path):
      return configuration[keyPath: path].flatMap { $0 > 0 && $0.isFinite ? nil : "must be above 0, not \($0)" }
    case .text(let path), .file(let path): return configuration[keyPath: path] == "" ? "is empty" : nil
    case .gateway(let path):
      return configuration[keyPath: path].flatMap { gateway in
        (1...65535).contains(gateway.port) && !gateway.host.isEmpty
          ? nil : "must be a host, and a port from 1 to 65535, not \(gateway)"
      }
    case .proxy(let path): return configuration[keyPath: path]?.problem
    case .word: return nil
    }
  }

  func isEqual(_ first: AppConfiguration, _ second: AppConfiguration) -> Bool {
    switch value {
    case .integer(let path, _), .byteCount(let path, _): first[keyPath: path] == second[keyPath: path]
    case .duration(let path, _): first[keyPath: path] == second[keyPath: path]
    case .optionalInteger(let path, _): first[keyPath: path] == second[keyPath: path]
    case .rate(let path): first[keyPath: path] == second[keyPath: path]
    case .text(let path), .file(let path): first[keyPath: path] == second[keyPath: path]
    case .gateway(let path): first[keyPath: path] == second[keyPath: path]
    case .proxy(let path): first[keyPath: path] == second[keyPath: path]
    case .word(let path, _): first[keyPath: path] == second[keyPath: path]
    }
  }

  /// Its value; nil: it is the path of a file, or the way out of a network, which each machine has
  /// of its own.
  package func text(in configuration: AppConfiguration) -> String? {
    switch value {
    case .integer(let path, _), .byteCount(let path, _): "\(configuration[keyPath: path])"
    case .duration(let path, _): "\(configuration[keyPath: path])"
    case .optionalInteger(let path, _): configuration[keyPath: path].map { "\($0)" } ?? ""
    case .rate(let path): configuration[keyPath: path].map { "\($0)" } ?? ""
    case .text(let path): configuration[keyPath: path] ?? ""
    case .file, .proxy: nil
    case .gateway(let path): configuration[keyPath: path].map { "\($0)" } ?? ""
    case .word(let path, _): configuration[keyPath: path]
    }
  }

  func copy(from source: AppConfiguration, to target: inout AppConfiguration) {
    switch value {
    case .integer(let path, _), .byteCount(let path, _): target[keyPath: path] = source[keyPath: path]
    case .duration(let path, _): target[keyPath: path] = source[keyPath: path]
    case .optionalInteger(let path, _): target[keyPath: path] = source[keyPath: path]
    case .rate(let path): target[keyPath: path] = source[keyPath: path]
    case .text(let path), .file(let path): target[keyPath: path] = source[keyPath: path]
    case .gateway(let path): target[keyPath: path] = source[keyPath: path]
    case .proxy(let path): target[keyPath: path] = source[keyPath: path]
    case .word(let path, _): target[keyPath: path] = source[keyPath: path]
    }
  }
}

extension AppConfiguration {
  /// Checks what a deployment demands of an app.
  ///
  /// - Throws: ``CarillonError/ErrorCode/configuration``.
  package func check() throws(CarillonError) {
    func demand(_ isGood: Bool, _ problem: String) throws(CarillonError) {
      if !isGood { throw CarillonError(.configuration, "The app \"\(id)\": \(problem).") }
    }
    if let problem = Self.problem(ofID: id) { try demand(false, "its id \(problem)") }
    guard topic != nil else {
      throw CarillonError(.configuration, "The app \"\(id)\" needs its topic, as in topic: com.example.news.")
    }
    for setting in AppSetting.all {
      if let problem = setting.problem(in: self) { try demand(false, "\(setting.key) \(problem)") }
    }
    guard let keyIdentifier = credential.settings.keyIdentifier else { return }
    try demand(transport.isHTTP2, "a token key needs HTTP/2")
    try demand(!keyIdentifier.isEmpty, "the key's identifier is not in the name of its file: give it as keyID")
  }

  /// Why no app can have this id, as the end of a sentence; nil if one can.
  package static func problem(ofID id: String) -> String? {
    let isPlain = id.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }
    guard !id.isEmpty, id.utf8.count <= 128, isPlain else {
      return "must consist of letters, digits, \".\", \"_\" and \"-\", at most 128, not \(id.cited)"
    }
    guard id != ".", id != ".." else {
      return "must not be \(id.cited), which addresses and paths use otherwise; name the app, as in news"
    }
    return nil
  }

  /// The keys of an app in the file whose values differ from another configuration's and count
  /// after the next start.
  package func waiting(besides other: AppConfiguration) -> [String] {
    var keys: [String] = []
    for setting in AppSetting.all where !setting.isLive && !setting.isEqual(self, other) {
      let key = String(setting.key.prefix { $0 != "." })
      if keys.last != key { keys.append(key) }
    }
    return keys
  }

  /// With the credential of another one, and its values of what a running app adopts.
  package func adopting(_ other: AppConfiguration) -> AppConfiguration {
    var own = self
    own.credential = other.credential
    for setting in AppSetting.all where setting.isLive { setting.copy(from: other, to: &own) }
    return own
  }
}

// MARK: - What the file has as words, or in another shape

extension AppConfiguration {
  package var environment: PushEnvironment {
    get {
      switch transport {
      case .http2(let environment), .binary(let environment, _): environment.wire
      }
    }
    set {
      let environment = Environment(wire: newValue)
      transport =
        switch transport {
        case .http2: .http2(environment)
        case .binary(_, let frames): .binary(environment, frames: frames)
        }
    }
  }

  /// The frame layout; over HTTP/2 the newest, which nothing uses.
  package var command: PushWire.FrameVersion {
    get { if case .binary(_, let frames) = transport { frames.wire } else { .framed } }
    set {
      if case .binary(let environment, _) = transport {
        transport = .binary(environment, frames: FrameVersion(wire: newValue))
      }
    }
  }

  package var confirm: LanePolicy.Confirm {
    get { settling.usesProbes ? .probe : .quiet }
    set { settling.usesProbes = newValue == .probe }
  }

  fileprivate var transportWord: String {
    get { transport.name.rawValue }
    set { if let name = Transport.Name(rawValue: newValue) { transport = Transport(name, environment) } }
  }

  fileprivate var environmentWord: String {
    get { environment.rawValue }
    set { if let value = PushEnvironment(rawValue: newValue) { environment = value } }
  }

  fileprivate var pushTypeWord: String {
    get { pushType.wire.rawValue }
    set {
      if let value = PushWire.PushType(rawValue: newValue) { pushType = PushNotification.PushType(wire: value) }
    }
  }

  fileprivate var commandWord: String {
    get { "\(command.rawValue)" }
    set { if let value = UInt8(newValue).flatMap(PushWire.FrameVersion.init(rawValue:)) { command = value } }
  }

  fileprivate var confirmWord: String {
    get { confirm.rawValue }
    set { if let value = LanePolicy.Confirm(rawValue: newValue) { confirm = value } }
  }

  fileprivate var onUnknownWord: String {
    get { onUnknown.wire.rawValue }
    set { if let value = LanePolicy.OnUnknown(rawValue: newValue) { onUnknown = UnknownPolicy(wire: value) } }
  }

  fileprivate var leastConnections: Int {
    get { connections.lowerBound }
    set { connections = newValue...max(newValue, connections.upperBound) }
  }

  fileprivate var mostConnections: Int {
    get { connections.upperBound }
    set { connections = min(newValue, connections.lowerBound)...newValue }
  }
}
