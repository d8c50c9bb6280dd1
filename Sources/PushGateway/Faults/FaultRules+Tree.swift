internal import PushWire

extension FaultRules {
  /// Longer than any network's round trip. A client times out before.
  private static let longestLatency = Duration.seconds(60)

  /// Reads rules as described at ``FaultRules``.
  ///
  /// - Throws: ``FaultRulesError`` that names the key, for an unknown key or a value of the wrong
  ///   kind.
  package init(_ tree: RuleTree) throws(FaultRulesError) {
    var reader = try RuleReader(tree, path: "")
    if let value = reader.take("handshake-delay") { handshakeDelay = try value.duration() }
    if let value = reader.take("latency") {
      latency = try value.duration()
      guard latency <= Self.longestLatency else { throw value.error("is more than a minute") }
    }
    if let value = reader.take("environment") { isSandbox = try value.choice(["sandbox": true, "production": false]) }
    let apps = reader.take("apps")
    if var reader = try reader.map("http2") {
      service = try ServiceSettings(&reader)
      common.http2 = try ServiceFaults(&reader, over: ServiceFaults())
      try reader.finish()
    }
    common = try Faults(&reader, over: common)
    try reader.finish()
    guard let apps else { return }
    for (topic, value) in try apps.map() {
      var reader = try value.reader()
      try reader.forbid(["handshake-delay", "latency"], because: "before the handshake the app is not known")
      try reader.forbid(["environment"], because: "it holds for the service as a whole")
      var faults = common
      if var reader = try reader.map("http2") {
        try reader.forbid(ServiceSettings.keyNames, because: "it holds for the service as a whole")
        faults.http2 = try ServiceFaults(&reader, over: common.http2)
        try reader.finish()
      }
      self.apps[topic] = try Faults(&reader, over: faults)
      try reader.finish()
    }
  }
}

extension Faults {
  /// `base`, overridden by the keys that `reader` has.
  fileprivate init(_ reader: inout RuleReader, over base: Faults) throws(FaultRulesError) {
    self = base
    refuse =
      try reader.entries("refuse") { entry throws(FaultRulesError) in
        let status = try entry.take("status")?.integer(in: 1...255) ?? Int(GatewayStatus.invalidToken.rawValue)
        return Refuse(try Selection(&entry), status: GatewayStatus(rawValue: UInt8(status)))
      } ?? refuse
    poison = try reader.entries("poison") { entry throws(FaultRulesError) in try Selection(&entry) } ?? poison
    if let value = reader.take("answer-delay") { answerDelay = try value.duration() }
    if let value = reader.take("answer-identifier") {
      namesRefusedFrame = try value.choice(["zero": false, "real": true])
    }
    if let value = reader.take("probe-identifier") { namesProbe = try value.choice(["zero": false, "real": true]) }
    if var entry = try reader.map("shutdown") { shutDown = try Breakpoint(&entry) }
    if var entry = try reader.map("close") { close = try Breakpoint(&entry) }
    if var entry = try reader.map("reset") { reset = try Breakpoint(&entry) }
    if var entry = try reader.map("stop-reading") {
      guard let duration = entry.take("for") else { throw entry.error("needs the key \"for\", a duration such as 2s") }
      stopReading = Pause(try Breakpoint(&entry), duration: try duration.duration())
    }
    if let value = reader.take("refuse-certificate") { refuseCertificate = try CertificateRefusal(value) }
    if let value = reader.take("feedback") {
      feedback = []
      for entry in try value.list() { feedback.append(try FeedbackTuple(entry)) }
    }
    if var entry = try reader.map("payload-limits") {
      if let value = entry.take("simple") { limits.simplePayload = try value.integer(in: 1...65535) }
      if let value = entry.take("enhanced") { limits.enhancedPayload = try value.integer(in: 1...65535) }
      if let value = entry.take("framed") { limits.framedPayload = try value.integer(in: 1...65535) }
      try entry.finish()
      // The frame must have room for the payload and for the items beside it.
      let largest = max(limits.simplePayload, limits.enhancedPayload, limits.framedPayload)
      limits.frameByteCount = max(limits.frameByteCount, largest + 256)
    }
    if let value = reader.take("token-length") {
      limits.tokenByteCount = try value.isText("any") ? nil : value.integer(in: 1...TokenBytes.byteCountLimit)
    }
  }
}

extension Faults.Selection {
  /// Reads all remaining keys of `reader`.
  init(_ reader: inout RuleReader) throws(FaultRulesError) {
    self.init()
    for value in try reader.take("tokens")?.list() ?? [] { tokens.insert(try value.token()) }
    for value in try reader.take("prefixes")?.list() ?? [] {
      let digits = try value.text()
      guard !digits.isEmpty, digits.utf8.allSatisfy({ TokenMatcher.value(ofDigit: $0) != nil }) else {
        throw value.error("does not consist of hexadecimal digits")
      }
      prefixes.append(digits.lowercased())
    }
    every = try reader.take("every")?.integer(in: 1...Int.max)
    connections = try reader.take("connections")?.integer(in: 1...Int.max)
    guard every != nil || !tokens.isEmpty || !prefixes.isEmpty else {
      throw reader.error("selects nothing: give tokens, prefixes or every")
    }
    try reader.finish()
  }
}

extension Faults.Breakpoint {
  /// Reads all remaining keys of `reader`.
  init(_ reader: inout RuleReader) throws(FaultRulesError) {
    guard let after = reader.take("after") else {
      throw reader.error("needs the key \"after\", a number of accepted frames")
    }
    self.init(
      after: try after.integer(in: 0...Int.max), connections: try reader.take("connections")?.integer(in: 1...Int.max))
    try reader.finish()
  }
}

extension Faults.CertificateRefusal {
  /// Nil for `false`.
  fileprivate init?(_ value: RuleValue) throws(FaultRulesError) {
    self.init()
    if case .text = value.tree {
      if try !value.flag() { return nil }
    } else {
      var reader = try value.reader()
      connections = try reader.take("connections")?.integer(in: 1...Int.max)
      try reader.finish()
    }
  }
}

extension FeedbackTuple {
  fileprivate init(_ value: RuleValue) throws(FaultRulesError) {
    var reader = try value.reader()
    guard let token = reader.take("token") else { throw reader.error("needs the key \"token\"") }
    guard let timestamp = reader.take("timestamp") else {
      throw reader.error("needs the key \"timestamp\", in UNIX seconds")
    }
    self.init(timestamp: UInt32(try timestamp.integer(in: 0...Int(UInt32.max))), token: try token.token())
    try reader.finish()
  }
}
