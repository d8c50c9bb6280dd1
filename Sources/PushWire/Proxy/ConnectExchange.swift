/// A CONNECT request and its answer (RFC 9110, sections 9.3.6 and 11.7; RFC 7617 for the
/// credentials).
struct ConnectExchange: Sendable {
  private let request: ProxyRequest
  /// No head ends before this place.
  private var scannedByteCount = 0

  private static let version = Array("HTTP/1.".utf8)
  private static let scheme = "basic"
  /// Of a text of the proxy that is shown.
  private static let shownScalarCount = 64

  init(_ request: ProxyRequest) { self.request = request }

  /// The credentials are shown unasked: a proxy that wants them would close the connection to ask.
  var opening: [UInt8] {
    let authority = request.authority
    var bytes = Array("CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n".utf8)
    if let credentials = request.credentials {
      bytes += Array("Proxy-Authorization: Basic ".utf8)
      bytes += Base64URL.encodePadded(credentials.username + [UInt8(ascii: ":")] + credentials.password)
      bytes += Array("\r\n".utf8)
    }
    return bytes + Array("\r\n".utf8)
  }

  /// Removes from `bytes` what it has understood.
  mutating func read(_ bytes: inout [UInt8]) -> ProxyHandshake.Ending? {
    while true {
      guard zip(bytes, Self.version).allSatisfy(==) else { return Self.notHTTP }
      guard let end = headEnd(bytes) else { return nil }
      let head = ConnectAnswer(bytes[..<end])
      bytes.removeFirst(end)
      scannedByteCount = 0
      guard let head else { return Self.notHTTP }
      switch head.status {
      case 100...199: continue
      case 200...299: return .open(rest: bytes)
      default: return .refused(refusal(head))
      }
    }
  }

  private static let notHTTP = ProxyHandshake.Ending.refused(
    "has not answered in HTTP/1; check scheme and port of its URL")

  /// The place behind the empty line.
  private mutating func headEnd(_ bytes: [UInt8]) -> Int? {
    let (lineEnd, carriageReturn) = (UInt8(ascii: "\n"), UInt8(ascii: "\r"))
    var index = scannedByteCount
    while index < bytes.count {
      defer { index += 1 }
      guard bytes[index] == lineEnd else { continue }
      var next = index + 1
      if next < bytes.count, bytes[next] == carriageReturn { next += 1 }
      guard next < bytes.count else {
        // The rest of the empty line may follow.
        scannedByteCount = index
        return nil
      }
      if bytes[next] == lineEnd { return next + 1 }
    }
    scannedByteCount = index
    return nil
  }

  private func refusal(_ answer: ConnectAnswer) -> String {
    let reason = answer.reason.escapedForTerminal(atMost: Self.shownScalarCount)
    let text = reason.isEmpty ? "\(answer.status)" : "\(answer.status) \(reason)"
    return "answered \(text): \(advice(answer))"
  }

  private func advice(_ answer: ConnectAnswer) -> String {
    switch answer.status {
    // tinyproxy answers 401 to a wrong password.
    case 401, 407:
      if !answer.challenges.isEmpty, !answer.challenges.contains(Self.scheme) {
        let offered = answer.challenges.joined(separator: ", ").escapedForTerminal(atMost: Self.shownScalarCount)
        return "it demands \(offered), and only Basic is spoken here; let it accept Basic for this client"
      }
      return request.credentials == nil
        ? "it demands a username and a password; give them with the proxy"
        : "it does not accept this username with this password; check both"
    case 403: return "it does not let this client reach \(request.authority); ask for that at its operator"
    case 400, 404, 405, 501: return "it may be no proxy for CONNECT; check scheme, host and port of its URL"
    case 500...599: return "it did not reach \(request.authority); look at its log"
    default: return "it does not open the way to \(request.authority); look at its log"
    }
  }
}

/// The head of an answer to CONNECT.
private struct ConnectAnswer {
  let status: Int
  let reason: String
  /// The schemes that `Proxy-Authenticate` offers, in lower case.
  var challenges: [String] = []

  /// - Parameter head: with its empty line. Nil: its first line is none of HTTP/1.
  init?(_ head: ArraySlice<UInt8>) {
    let lines = head.split(separator: UInt8(ascii: "\n")).map { line in
      String(decoding: line.last == UInt8(ascii: "\r") ? line.dropLast() : line, as: UTF8.self)
    }
    // `HTTP/1.1 200 Connection established`: the reason may be missing.
    let words = (lines.first ?? "").split(separator: " ", maxSplits: 2)
    guard words.count >= 2, words[0].utf8.count == 8, words[1].utf8.count == 3, let status = UInt(words[1]) else {
      return nil
    }
    self.status = Int(status)
    reason = words.count > 2 ? String(words[2]) : ""
    for line in lines.dropFirst() {
      guard let colon = line.firstIndex(of: ":"), line[..<colon].lowercased() == "proxy-authenticate" else { continue }
      let value = line[line.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
      let scheme = value.prefix { $0 != " " && $0 != "," }.lowercased()
      if !scheme.isEmpty { challenges.append(scheme) }
    }
  }
}
