internal import Carillon
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import NIOHTTP1
internal import PushService
internal import PushWire

extension Problem {
  init(describing error: any Error) {
    if let known = Problem(known: error) {
      self = known
      return
    }
    switch error {
    case is HTTPParserError: self = .malformed("The body was cut off, or is not HTTP/1.1.")
    case let error as any HTTPResponseError where error.status == .notFound: self = .notFound
    case let error as any HTTPResponseError: self.init(error.status, "\(error.status.reasonPhrase)", "\(error)")
    default:
      self.init(.internalServerError, "Internal error", "The request could not be served: \(error).")
      isDoubtful = true
    }
  }
}

extension Request {
  /// The whole body.
  ///
  /// - Parameters:
  ///   - allowance: see ``UploadPace``.
  ///   - owner: whose share of the memory it takes.
  ///   - memory: where a large one counts until the request was answered; nil: only while it
  ///     arrives.
  /// - Throws: ``Problem`` with 413 when there is more of it than the limit, with 408 when it
  ///   arrives too slowly, with 429 when the owner's bodies take their share of the memory, with
  ///   503 when all bodies together take too much, and with 400 when it is cut off.
  func wholeBody(
    limit: Int, allowance: Duration, owner: String, clock: any ServiceClock, until memory: RequestMemory? = nil
  ) async throws -> [UInt8] {
    let length = headers[.contentLength].flatMap { Int($0) } ?? 0
    guard length <= limit else { throw Self.tooLarge(limit) }
    let pace = UploadPace(beganAt: clock.uptime, allowance: allowance)
    var bytes: [UInt8] = []
    // What was announced may never come.
    bytes.reserveCapacity(max(0, min(length, 1 << 20)))
    let isCounted = memory?.hasBody == true
    var room = BodyMemory.Body(.shared, owner: owner, announced: length)
    for try await part in body {
      guard bytes.count + part.readableBytes <= limit else { throw Self.tooLarge(limit) }
      guard !pace.isTooSlow(byteCount: bytes.count, now: clock.uptime) else { throw Self.tooSlow }
      if !isCounted {
        do throws(BodyMemory.Refusal) { try room.take(part.readableBytes) } catch {
          throw error.problem("bodies", "arrive", action: "Send fewer large bodies at the same time.")
        }
      }
      bytes.append(contentsOf: part.readableBytesView)
    }
    if !isCounted, bytes.count > BodyMemory.smallByteCount { memory?.hold(MemoryRoom(room)) }
    return bytes
  }

  private static let tooSlow = Problem(
    .requestTimeout, "Too slow", "The body arrives more slowly than \(UploadPace.leastBytesPerSecond) bytes a second.",
    action: "Send smaller bodies over this connection.")

  private static func tooLarge(_ limit: Int) -> Problem {
    Problem(
      .contentTooLarge, "Too large", "The body has more than \(limit) bytes.",
      action: "Send it in parts, or raise max-body of the service.")
  }
}

extension ControlContext {
  /// Room for an answer, which its caller has until the last reference is gone.
  ///
  /// - Throws: ``Problem`` with 429 when the key's bodies and answers take its share of the memory,
  ///   and with 503 when those of all keys take too much.
  func answerRoom(_ byteCount: Int) throws -> MemoryRoom {
    var room = BodyMemory.Body(.shared, owner: caller?.keyID ?? "", announced: byteCount)
    do throws(BodyMemory.Refusal) { try room.take(byteCount) } catch {
      throw error.problem("answers", "are sent", action: "Read the answers, or ask for fewer at the same time.")
    }
    return MemoryRoom(room)
  }
}

extension BodyMemory.Refusal {
  fileprivate func problem(_ what: String, _ verb: String, action: String) -> Problem {
    switch self {
    case .full: .unavailable("Too many large \(what) \(verb) at the same time.", retryAfter: 1)
    case .share:
      Problem(
        .tooManyRequests, "Too many large \(what)",
        "The key's \(what) that \(verb) at present take its share of memory.", action: action, retryAfter: 1)
    }
  }
}

extension Response {
  /// An answer that takes this room until it was sent.
  func holding(_ room: MemoryRoom) -> Response {
    var response = self
    response.body = ResponseBody(contentLength: body.contentLength) { [body] writer in
      try await body.write(writer)
      withExtendedLifetime(room) {}
    }
    return response
  }

  static func json(_ status: HTTPResponse.Status = .ok, _ body: (inout JSONWriter) -> Void) -> Response {
    json(status, text: JSONWriter.text(body))
  }

  static func json(_ status: HTTPResponse.Status = .ok, text: String) -> Response {
    Response(
      status: status, headers: [.contentType: "application/json"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
  }
}

extension JSONWriter {
  /// What is to be said of some lines of a body.
  mutating func lines(_ name: String, _ lines: [(line: Int, detail: String)]) {
    array(name, lines) { line, json in
      json.field("line", line.line)
      json.field("detail", line.detail)
    }
  }
}

extension Problem {
  func response(instance: String) -> Response {
    var response = Response(
      status: status, headers: [.contentType: "application/problem+json"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text(instance: instance))))
    if let retryAfter { response.headers[.retryAfter] = String(retryAfter) }
    if let allow { response.headers[.allow] = allow }
    if status == .unauthorized { response.headers[.wwwAuthenticate] = "Bearer" }
    return response
  }
}
