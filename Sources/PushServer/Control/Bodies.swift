internal import Carillon
internal import Hummingbird
internal import NIOCore
internal import NIOHTTP1
internal import PushStore
internal import PushWire

extension Problem {
  init(describing error: any Error) {
    switch error {
    case let problem as Problem: self = problem
    case let error as CarillonError: self.init(error)
    case let error as StoreError: self.init(error)
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
  ///   - patience: see ``UploadPace``.
  ///   - owner: whose share of the memory it takes.
  /// - Throws: ``Problem`` with 413 when there is more of it than the limit, with 408 when it
  ///   arrives too slowly, with 429 when the owner's bodies take their share of the memory, with
  ///   503 when all bodies together take too much, and with 400 when it is cut off.
  func wholeBody(limit: Int, patience: Duration, owner: String) async throws -> [UInt8] {
    let length = headers[.contentLength].flatMap { Int($0) } ?? 0
    guard length <= limit else { throw Self.tooLarge(limit) }
    let pace = UploadPace(beganAt: .now, patience: patience)
    var bytes: [UInt8] = []
    // What was announced may never come.
    bytes.reserveCapacity(max(0, min(length, 1 << 20)))
    var room = BodyMemory.Body(Self.memory, owner: owner, announced: length)
    for try await part in body {
      guard bytes.count + part.readableBytes <= limit else { throw Self.tooLarge(limit) }
      guard !pace.isTooSlow(byteCount: bytes.count, now: .now) else { throw Self.tooSlow }
      do throws(BodyMemory.Refusal) { try room.take(part.readableBytes) } catch { throw Self.noRoom(error) }
      bytes.append(contentsOf: part.readableBytesView)
    }
    return bytes
  }

  /// The limit of the whole process: 256 MiB.
  private static let memory = BodyMemory(limit: 256 << 20)

  private static func noRoom(_ refusal: BodyMemory.Refusal) -> Problem {
    switch refusal {
    case .full: return .unavailable("Too many large bodies arrive at the same time.", retryAfter: 1)
    case .share:
      var problem = Problem(
        .tooManyRequests, "Too many large bodies", "The key's bodies that arrive at present take its share of memory.",
        action: "Send fewer large bodies at the same time.")
      problem.retryAfter = 1
      return problem
    }
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

extension Response {
  static func json(_ status: HTTPResponse.Status = .ok, _ body: (inout JSONWriter) -> Void) -> Response {
    var json = JSONWriter()
    json.object(body)
    return Response(
      status: status, headers: [.contentType: "application/json"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: json.text)))
  }
}

extension Instant {
  /// The time of the monotonic clock.
  static var now: Instant { Instant(nanoseconds: NIODeadline.now().uptimeNanoseconds) }
}
