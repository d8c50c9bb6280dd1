extension ProviderHeaders {
  /// All errors and warnings for a notification with these headers.
  ///
  /// ``check(payload:credential:)`` checks headers and push types, the payload's size, and what the
  /// payload must contain as a whole. `Payload.check` then checks its keys and values.
  package func findings(payload: [UInt8], credential: ProviderCredentialKind) -> [PayloadFinding] {
    let broken = check(payload: payload, credential: credential).map {
      PayloadFinding(severity: .error, path: JSONPath(), sentence: $0.description)
    }
    guard !payload.isEmpty else { return broken }
    var checker = PayloadChecker()
    if let (root, members) = checker.readObject(payload) {
      for member in members { checker.checkTopLevel(member, at: root.appending(key: member.key)) }
      checker.checkPushType(members, pushType, priority: effectivePriority)
    }
    return broken + checker.findings
  }
}

/// The rules of payloads, checked on their bytes, whatever program made them.
package enum Payload {
  /// All errors and warnings for the bytes of a payload; empty if there are none.
  ///
  /// - Parameters:
  ///   - payloadLimit: Replaces the transport's own limit, in bytes, for gateways with another
  ///     setting.
  ///   - priority: 10 (at once) or 5 (when it saves power), if the notification has one.
  package static func check(
    _ bytes: [UInt8], for transport: PayloadTransport, payloadLimit: Int? = nil, priority: UInt8? = nil
  ) -> [PayloadFinding] {
    var checker = PayloadChecker()
    checker.checkSize(bytes.count, transport, limit: payloadLimit ?? transport.payloadLimit)
    guard let (root, members) = checker.readObject(bytes) else { return checker.findings }
    for member in members { checker.checkTopLevel(member, at: root.appending(key: member.key)) }
    checker.checkPresence(members)
    checker.checkPriority(members, transport, priority: priority)
    return checker.findings
  }
}

/// Collects findings. The rules of `aps` are in `PayloadRule`.
struct PayloadChecker {
  private(set) var findings: [PayloadFinding] = []

  mutating func error(_ path: JSONPath, _ sentence: String) {
    findings.append(PayloadFinding(severity: .error, path: path, sentence: sentence))
  }

  mutating func warning(_ path: JSONPath, _ sentence: String) {
    findings.append(PayloadFinding(severity: .warning, path: path, sentence: sentence))
  }

  mutating func checkSize(_ byteCount: Int, _ transport: PayloadTransport, limit: Int) {
    if byteCount > limit {
      error(
        JSONPath(),
        "The payload has \(byteCount) bytes, \(byteCount - limit) more than \(transport.name) allows (\(limit)).")
    }
  }

  /// Returns the members of the payload, or nil if it is not a JSON object. A byte order mark and a
  /// terminating NUL are reported and then skipped, so that one run shows all errors.
  mutating func readObject(_ bytes: [UInt8]) -> (JSONPath, [JSONMember])? {
    let root = JSONPath()
    var range = 0..<bytes.count
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) {
      error(
        root, "The payload begins with a byte order mark (EF BB BF), which JSON does not allow: save it without one.")
      range.removeFirst(3)
    }
    if let last = range.last, bytes[last] == 0 {
      error(root, "The payload ends with a NUL byte: strings must be sent without their terminator.")
      while let last = range.last, bytes[last] == 0 { range.removeLast() }
    }
    guard !range.isEmpty else {
      error(root, "The payload is empty.")
      return nil
    }
    var parser = JSONParser(bytes.span.extracting(range))
    do throws(JSONError) {
      let value = try parser.parse()
      report(parser.remarks)
      guard case .object(let members) = value else {
        error(root, "The payload must be a JSON object, not \(value.kindName).")
        return nil
      }
      return (root, members)
    } catch {
      let moved = JSONError(offset: error.offset + range.lowerBound, problem: error.problem)
      self.error(root, "The payload is not JSON: \(moved.description(in: bytes)).")
      return nil
    }
  }

  private mutating func report(_ remarks: [(path: JSONPath, remark: JSONParser.Remark)]) {
    for (path, remark) in remarks {
      switch remark {
      case .duplicateKey: warning(path, "The key occurs more than once; the receiver decides which value it uses.")
      case .loneSurrogate: warning(path, "An escape is one half of a surrogate pair; the other half is missing.")
      }
    }
  }

  mutating func checkTopLevel(_ member: JSONMember, at path: JSONPath) {
    switch member.key {
    case "aps":
      guard case .object(let members) = member.value else {
        error(path, "It must be an object, not \(member.value.kindName).")
        return
      }
      if members.isEmpty { warning(path, "It is empty, so the notification has no effect.") }
      check(members, by: PayloadRule.aps, at: path)
    case "mdm":
      if case .string = member.value { return }
      error(path, "It must be a string (the PushMagic), not \(member.value.kindName).")
    case "alert", "badge", "sound", "content-available", "mutable-content":
      warning(path, "Here it is a custom key; the system reads it only inside aps.")
    default: break
    }
  }

  mutating func checkPresence(_ members: [JSONMember]) {
    if !members.contains(where: { $0.key == "aps" || $0.key == "mdm" }) {
      error(JSONPath(), "The payload has neither aps nor mdm.")
    }
  }

  /// BinaryProtocol.md, item 5: "10 is an error for a payload that holds only content-available".
  /// The same is true of HTTP/2.
  mutating func checkPriority(_ members: [JSONMember], _ transport: PayloadTransport, priority: UInt8?) {
    guard Self.onlyWakes(members) else { return }
    let path = Self.wakingPath
    switch transport {
    case .binary(.simple), .binary(.enhanced):
      warning(
        path,
        "The payload only wakes the app, so its priority should be 5, "
          + "but commands 0 and 1 always mean priority 10: use command 2.")
    default:
      if priority == 10 {
        error(path, "The payload only wakes the app, for which priority 10 is an error: use priority 5.")
      }
    }
  }

  /// HTTP/2 has a push type for payloads that only wake the app.
  mutating func checkPushType(_ members: [JSONMember], _ pushType: PushType, priority: UInt8?) {
    guard pushType == .alert, Self.onlyWakes(members) else { return }
    if priority == 10 {
      error(
        Self.wakingPath,
        "The payload only wakes the app, for which priority 10 is an error: use the push type background.")
    } else {
      warning(
        Self.wakingPath,
        "The payload only wakes the app, so its push type should be background: "
          + "as an alert it may be delayed or dropped.")
    }
  }

  private static let wakingPath = JSONPath().appending(key: "aps").appending(key: "content-available")

  private static func onlyWakes(_ members: [JSONMember]) -> Bool {
    guard case .object(let aps)? = members.last(where: { $0.key == "aps" })?.value else { return false }
    return aps.contains { $0.key == "content-available" }
      && !aps.contains { ["alert", "badge", "sound", "event"].contains($0.key) }
  }
}
