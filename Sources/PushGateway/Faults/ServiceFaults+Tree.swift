internal import PushWire

extension ServiceSettings {
  /// Takes its keys out of `reader`.
  init(_ reader: inout RuleReader) throws(FaultRulesError) {
    self.init()
    if let value = reader.take("strict") { isStrict = try value.flag() }
    if let value = reader.take("clock-offset") { clockOffset = try value.signedDuration() }
    if let value = reader.take("expire-token-after") { expireTokenAfter = try value.duration() }
    if let value = reader.take("idle-limit") { idleLimit = try value.duration() }
    keys = try reader.entries("keys") { entry throws(FaultRulesError) in try KeyFile(&entry) } ?? []
  }

  /// The keys that are allowed at the top level only.
  static let keyNames = ["strict", "clock-offset", "expire-token-after", "idle-limit", "keys"]
}

extension ServiceSettings.KeyFile {
  fileprivate init(_ reader: inout RuleReader) throws(FaultRulesError) {
    func text(_ key: String) throws(FaultRulesError) -> String {
      guard let text = try reader.take(key)?.text(), !text.isEmpty else {
        throw reader.error("needs the key \"\(key)\"")
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
    if let value = reader.take("broadcast") { allowsBroadcast = try value.flag() }
  }

  private mutating func takeAnswers(_ reader: inout RuleReader) throws(FaultRulesError) {
    refuse =
      try reader.entries("refuse") { entry throws(FaultRulesError) in
        let refusal = try ServiceRefusal(&entry, defaultReason: .badDeviceToken)
        let timestamp = try entry.take("timestamp")?.integer(in: 0...Int.max)
        let times = try entry.take("times")?.integer(in: 1...Int.max)
        return Refuse(try Faults.Selection(&entry), refusal, timestamp: timestamp.map { Int64($0) }, times: times)
      } ?? refuse
    bursts = try reader.entries("bursts") { entry throws(FaultRulesError) in try Burst(&entry) } ?? bursts
    noAnswer =
      try reader.entries("no-answer") { entry throws(FaultRulesError) in
        let isTaken = try entry.take("taken")?.flag() ?? true
        return Silence(try Faults.Selection(&entry), isTaken: isTaken)
      } ?? noAnswer
    reset =
      try reader.entries("reset") { entry throws(FaultRulesError) in
        let code = try entry.take("code")?.integer(in: 0...Int(UInt32.max)) ?? 7
        let isTaken = try entry.take("taken")?.flag() ?? false
        if isTaken, code == 7 {
          throw entry.error("accepts a request, but code 7 (REFUSED_STREAM) says the opposite; give another code")
        }
        return Reset(try Faults.Selection(&entry), code: UInt32(code), isTaken: isTaken)
      } ?? reset
    if let value = reader.take("delay") { delay = try Delay(value) }
  }

  private mutating func takeBadDays(_ reader: inout RuleReader) throws(FaultRulesError) {
    poison =
      try reader.entries("poison") { entry throws(FaultRulesError) in
        let isTaken = try entry.take("taken")?.flag() ?? false
        let isReset = try entry.take("how")?.choice(["reset": true, "close": false]) ?? false
        return Poison(try Faults.Selection(&entry), isTaken: isTaken, isReset: isReset)
      } ?? poison
    if var entry = try reader.map("outage") {
      guard let length = entry.take("for") else { throw entry.error("needs the key \"for\", a duration such as 15s") }
      let from = try entry.take("from")?.duration() ?? .zero
      outage = Outage(
        from: from, length: try length.duration(), try ServiceRefusal(&entry, defaultReason: .serviceUnavailable))
      try entry.finish()
    }
    if var entry = try reader.map("garbage") { garbage = try Faults.Breakpoint(&entry) }
  }

  private mutating func takeConnections(_ reader: inout RuleReader) throws(FaultRulesError) {
    let limitRange = 0...Int(Int32.max)
    if let value = reader.take("stream-limit") { streamLimit = try value.integer(in: limitRange) }
    if let value = reader.take("first-stream-limit") { firstStreamLimit = try value.integer(in: limitRange) }
    if let value = reader.take("error-stream-limit") { errorStreamLimit = try value.integer(in: limitRange) }
    limits =
      try reader.entries("limits") { entry throws(FaultRulesError) in
        guard let limit = try entry.take("to")?.integer(in: limitRange) else {
          throw entry.error("needs the key \"to\", a number of streams")
        }
        return LimitChange(try Faults.Breakpoint(&entry), limit: limit)
      } ?? limits
    if var reader = try reader.map("goaway") {
      let code = try reader.take("code")?.integer(in: 0...Int(UInt32.max)) ?? 0
      let reason = try reader.take("reason")?.text()
      goAway = GoAway(try Faults.Breakpoint(&reader), code: UInt32(code), reason: reason)
    }
    if var reader = try reader.map("drain") {
      let answers = try reader.take("answers")?.integer(in: 0...Int.max) ?? 100
      drain = Drain(try Faults.Breakpoint(&reader), answers: answers)
    }
    cut =
      try reader.entries("cut") { entry throws(FaultRulesError) in
        let isTaken = try entry.take("taken")?.flag() ?? true
        let isReset = try entry.take("how")?.choice(["reset": true, "close": false]) ?? true
        return Cut(try Faults.Breakpoint(&entry), isTaken: isTaken, isReset: isReset)
      } ?? cut
  }
}

extension ServiceFaults.Burst {
  fileprivate init(_ reader: inout RuleReader) throws(FaultRulesError) {
    guard let every = try reader.take("every")?.integer(in: 1...Int.max) else {
      throw reader.error("needs the key \"every\", a number of requests")
    }
    guard let length = try reader.take("length")?.integer(in: 1...every) else {
      throw reader.error("needs the key \"length\", a number of requests")
    }
    self.init(every: every, length: length, try ServiceRefusal(&reader, defaultReason: .serviceUnavailable))
    connections = try reader.take("connections")?.integer(in: 1...Int.max)
    try reader.finish()
  }
}

extension ServiceFaults.Delay {
  fileprivate init(_ value: RuleValue) throws(FaultRulesError) {
    var reader = try value.reader()
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
