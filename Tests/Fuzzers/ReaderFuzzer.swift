internal import PushTransport
internal import PushWire

/// What a gateway may send, for libFuzzer: `ops/fuzz` builds and runs it.
///
/// The first byte is how many requests are open, the second how the rest is cut. Each request ends
/// at most once, none that was not submitted does, and what is open is what has not ended.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzReader(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let input = unsafe Array(UnsafeBufferPointer(start: start, count: count))
  guard input.count > 2 else { return 0 }
  let session = HTTP2ClientSession()
  var open: Set<UInt64> = []
  var tag: UInt64 = 0
  func submit(_ limit: Int) {
    for _ in 0..<limit {
      let token = [UInt8](repeating: UInt8(truncatingIfNeeded: tag), count: 32)
      let identifier = tag % 2 == 0 ? APNSIdentifier(high: 1, low: tag) : nil
      let result = unsafe token.withUnsafeBytes { token in
        session.submitting { unsafe $0.submit(template, token: token, identifier: identifier, tag: tag) }
      }
      guard case .submitted = result else { return }
      open.insert(tag)
      tag += 1
    }
  }
  func end(_ tag: UInt64) { precondition(open.remove(tag) != nil, "a request has ended twice, or never began") }
  func drain() {
    while let event = session.nextEvent() {
      switch event {
      case .response(let response):
        end(response.tag)
        precondition(response.status < 1_000, "a status of four digits")
        _ = unsafe response.body.reduce(0) { $0 &+ $1 }
      case .ended(let stream): end(stream.tag)
      case .settings, .goAway, .pong: break
      }
    }
    while unsafe !session.output().isEmpty {}
    precondition(session.openStreamCount <= open.count, "more streams than requests")
  }
  submit(1)
  drain()
  var rest = input.dropFirst(2)
  while !rest.isEmpty {
    // Whole, or in pieces of some bytes.
    let piece = input[1] == 0 ? rest.count : min(rest.count, Int(input[1]))
    unsafe Array(rest.prefix(piece)).withUnsafeBytes { unsafe session.receive($0) }
    rest = rest.dropFirst(piece)
    drain()
    submit(max(0, Int(input[0] % 32) - open.count))
    drain()
    if session.failure != nil { break }
  }
  session.forEachOpenRequest { tag, _, _ in end(tag) }
  precondition(open.isEmpty, "a request is forgotten")
  return 0
}

private let template: RequestTemplate = {
  var headers = ProviderHeaders(topic: "com.example.news")
  headers.expiration = 4_000_000_000
  return RequestTemplate(
    authority: "localhost", headers: headers, credential: .certificate(userIdentifier: nil, topics: []),
    payload: Array(#"{"aps":{"alert":"Hello"}}"#.utf8))
}()
