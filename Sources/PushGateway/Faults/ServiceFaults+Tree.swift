internal import PushWire

extension ServiceSettings {
  /// Takes its keys out of `reader`.
  init(_ reader: inout RuleReader) throws(FaultRulesError) {
    self.init()
    if let value = reader.take("strict") { isStrict = try value.choice(["true": true, "false": false]) }
    if let value = reader.take("clock-offset") { clockOffset = try value.signedDuration() }
    if let value = reader.take("expire-token-after") { expireTokenAfter = try value.duration() }
    if let value = reader.take("idle-limit") { idleLimit = try value.duration() }
    for value in try reader.take("keys")?.listOrOne() ?? [] { keys.append(try KeyFile(value)) }
  }

  /// The keys that are allowed at the top level only.
  static let keyNames = ["strict", "clock-offset", "expire-token-after", "idle-limit", "keys"]
}

extension ServiceSettings.KeyFile {
  fileprivate init(_ value: RuleValue) throws(FaultRulesError) {
    var reader = try RuleReader(value.tree, path: value.path)
    func text(_ key: String) throws(FaultRulesError) -> String {
      guard let text = try reader.take(key)?.text(), !text.isEmpty else {
        throw value.error("needs the key \"\(key)\"")
      }
      return text
    }
    self.init(file: try text("file"), keyIdentifier: try text("key-id"), teamIdentifier: try text("team-id"))
    if let list = try reader.take("topics")?.list() {
      var topics: Set<String> = []
      for topic in list { topics.insert(try topic.text()) }
      self.topics = topics
    }
    try reader.finish()
  }
}

extension ServiceFaults {
  /// `base`, overridden by the keys that `reader` has.
  init(_ reader: inout RuleReader, over base: ServiceFaults) throws(FaultRulesError) {
    self = base
    try takeAnswers(&reader)
    try takeConnections(&reader)
    try takeBadDays(&reader)
    if let value = reader.take("broadcast") { allowsBroadcast = try value.choice(["true": true, "false": false]) }
  }

  private mutating func takeAnswers(_ reader: inout RuleReader) throws(FaultRulesError) {
    if let value = reader.take("refuse") {
      refuse = []
      for entry in try value.listOrOne() {
        var entry = try RuleReader(entry.tree, path: entry.path)
        let refusal = try ServiceRefusal(&entry, defaultReason: .badDeviceToken)
        let timestamp = try entry.take("timestamp")?.integer(in: 0...Int.max)
        let times = try entry.take("times")?.integer(in: 1...Int.max)
        refuse.append(
          Refuse(try Faults.Selection(&entry), refusal, timestamp: timestamp.map { Int64($0) }, times: times))
      }
    }
    if let value = reader.take("bursts") {
      bursts = []
      for entry in try value.listOrOne() { bursts.append(try Burst(entry)) }
    }
    if let value = reader.take("no-answer") {
      noAnswer = []
      for entry in try value.listOrOne() {
        var entry = try RuleReader(entry.tree, path: entry.path)
        let isTaken = try entry.take("taken")?.choice(["true": true, "false": false]) ?? true
        noAnswer.append(Silence(try Faults.Selection(&entry), isTaken: isTaken))
      }
    }
    if let value = reader.take("reset") {
      reset = []
      for entry in try value.listOrOne() {
        var entry = try RuleReader(entry.tree, path: entry.path)
        let code = try entry.take("code")?.integer(in: 0...Int(UInt32.max)) ?? 7
        let isTaken = try entry.take("taken")?.choice(["true": true, "false": false]) ?? false
        if isTaken, code == 7 {
          throw entry.error("accepts a request, but code 7 (REFUSED_STREAM) says the opposite; give another code")
        }
        reset.append(Reset(try Faults.Selection(&entry), code: UInt32(code), isTaken: isTaken))
      }
    }
    if let value = reader.take("delay") { delay = try Delay(value) }
  }

  private mutating func takeBadDays(_ reader: inout RuleReader) throws(FaultRulesError) {
    if let value = reader.take("poison") {
      poison = []
      for entry in try value.listOrOne() {
        var entry = try RuleReader(entry.tree, path: entry.path)
        let isTaken = try entry.take("taken")?.choice(["true": true, "false": false]) ?? false
        let isReset = try entry.take("how")?.choice(["reset": true, "close": false]) ?? false
        poison.append(Poison(try Faults.Selection(&entry), isTaken: isTaken, isReset: isReset))
      }
    }
    if let value = reader.take("outage") {
      var entry = try RuleReader(value.tree, path: value.path)
      guard let length = entry.take("for") else { throw value.error("needs the key \"for\", a duration such as 15s") }
      let from = try entry.take("from")?.duration() ?? .zero
      outage = Outage(
        from: from, length: try length.duration(), try ServiceRefusal(&entry, defaultReason: .serviceUnavailable))
      try entry.finish()
    }
    if let value = reader.take("garbage") {
      var entry = try RuleReader(value.tree, path: value.path)
      garbage = try Faults.Breakpoint(&entry)
    }
  }

  private mutating func takeConnections(_ reader: inout RuleReader) throws(FaultRulesError) {
    let limitRange = 0...Int(Int32.max)
    if let value = reader.take("stream-limit") { streamLimit = try value.integer(in: limitRange) }
    if let value = reader.take("first-stream-limit") { firstStreamLimit = try value.integer(in: limitRange) }
    if let value = reader.take("error-stream-limit") { errorStreamLimit = try value.integer(in: limitRange) }
    if let value = reader.take("limits") {
      limits = []
      for entry in try value.listOrOne() {
        var reader = try RuleReader(entry.tree, path: entry.path)
        guard let limit = try reader.take("to")?.integer(in: limitRange) else {
          throw entry.error("needs the key \"to\", a number of streams")
        }
        limits.append(LimitChange(try Faults.Breakpoint(&reader), limit: limit))
      }
    }
    if let value = reader.take("goaway") {
      var reader = try RuleReader(value.tree, path: value.path)
      let code = try reader.take("code")?.integer(in: 0...Int(UInt32.max)) ?? 0
      let reason = try reader.take("reason")?.text()
      goAway = GoAway(try Faults.Breakpoint(&reader), code: UInt32(code), reason: reason)
    }
    if let value = reader.take("drain") {
      var reader = try RuleReader(value.tree, path: value.path)
      let answers = try reader.take("answers")?.integer(in: 0...Int.max) ?? 100
      drain = Drain(try Faults.Breakpoint(&reader), answers: answers)
    }
    if let value = reader.take("cut") {
      cut = []
      for entry in try value.listOrOne() {
        var reader = try RuleReader(entry.tree, path: entry.path)
        let isTaken = try reader.take("taken")?.choice(["true": true, "false": false]) ?? true
        let isReset = try reader.take("how")?.choice(["reset": true, "close": false]) ?? true
        cut.append(Cut(try Faults.Breakpoint(&reader), isTaken: isTaken, isReset: isReset))
      }
    }
  }
}

extension ServiceFaults.Burst {
  fileprivate init(_ value: RuleValue) throws(FaultRulesError) {
    var reader = try RuleReader(value.tree, path: value.path)
    guard let every = try reader.take("every")?.integer(in: 1...Int.max) else {
      throw value.error("needs the key \"every\", a number of requests")
    }
    guard let length = try reader.take("length")?.integer(in: 1...every) else {
      throw value.error("needs the key \"length\", a number of requests")
    }
    self.init(every: every, length: length, try ServiceRefusal(&reader, defaultReason: .serviceUnavailable))
    connections = try reader.take("connections")?.integer(in: 1...Int.max)
    try reader.finish()
  }
}

extension ServiceFaults.Delay {
  fileprivate init(_ value: RuleValue) throws(FaultRulesError) {
    var reader = try RuleReader(value.tree, path: value.path)
    let fixed = try reader.take("fixed")?.duration()
    let uniform = try reader.take("uniform")?.duration()
    let to = try reader.take("to")?.duration()
    let mean = try reader.take("exponential")?.duration()
    switch (fixed, uniform, to, mean) {
    case (let fixed?, nil, nil, nil): self = .fixed(fixed)
    case (nil, let uniform?, let to?, nil) where uniform <= to: self = .uniform(uniform, to)
    case (nil, nil, nil, let mean?): self = .exponential(mean: mean)
    default: throw value.error("must be one of { fixed: 20ms }, { uniform: 5ms, to: 50ms } and { exponential: 20ms }")
    }
    try reader.finish()
  }
}

extension ServiceRefusal {
  /// Takes `reason` and `status`. A reason that is not one of Apple's needs a status. A status
  /// without a reason has the default reason.
  fileprivate init(_ reader: inout RuleReader, defaultReason: ProviderReason) throws(FaultRulesError) {
    let reason = try reader.take("reason")?.text() ?? defaultReason.rawValue
    let status = try reader.take("status")?.integer(in: 400...599)
    let known = ProviderReason(rawValue: reason)
    guard let status = status ?? known.map({ Int(Self.status(of: $0)) }) else {
      throw reader.error("\"\(reason)\" is not one of the service's reasons, so it needs a status")
    }
    self.init(status: UInt16(status), reason: reason)
  }
}
