internal import Carillon
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import PushStore
internal import PushWire

/// Why a request was not served, as RFC 9457 has it.
struct Problem: Error, Sendable {
  /// One thing that is wrong with a request's body.
  struct Detail: Sendable {
    /// Where in the body, as RFC 6901 has it, such as `/payload`; nil in a list of lines.
    var pointer: String?
    /// The line in the body, from 1.
    var line: Int?
    var detail: String
  }

  var status: HTTPResponse.Status
  var title: String
  var detail: String
  var errors: [Detail] = []
  /// What would help.
  var action: String?
  /// Seconds.
  var retryAfter: Int?
  /// What was asked for may have been done in part, or as a whole.
  var isDoubtful = false
  /// The methods of the address, with 405.
  var allow: String?

  init(_ status: HTTPResponse.Status, _ title: String, _ detail: String, action: String? = nil) {
    self.status = status
    self.title = title
    self.detail = detail
    self.action = action
  }

  static let notFound = Problem(.notFound, "Not found", "There is nothing at this address, or this key may not see it.")

  /// - Parameter what: such as `campaign 0190…`. Nothing else says whether it exists for others.
  static func missing(_ what: String) -> Problem { Problem(.notFound, "Not found", "There is no \(what).") }

  /// An app that is not there, or that the key is not for.
  static func missing(app id: String) -> Problem {
    Problem(.notFound, "Not found", "There is no app \(id.cited) that this key may see.")
  }

  /// - Parameter path: of what is served on the other listener.
  static func elsewhere(_ path: String) -> Problem {
    Problem(
      .notFound, "Not found", "\(path) is not on this address.",
      action: "Ask the address that admin.listen of the configuration names.")
  }

  static func malformed(_ detail: String, pointer: String? = nil) -> Problem {
    var problem = Problem(.badRequest, "Bad request", detail)
    if let pointer { problem.errors = [Detail(pointer: pointer, detail: detail)] }
    return problem
  }

  static func unavailable(_ detail: String, retryAfter: Int = 5) -> Problem {
    var problem = Problem(.serviceUnavailable, "Service unavailable", detail)
    problem.retryAfter = retryAfter
    return problem
  }

  /// - Parameter instance: the path of the request.
  func text(instance: String?) -> String {
    var json = JSONWriter()
    json.object { json in
      json.field("title", title)
      json.field("status", status.code)
      json.field("detail", detail)
      json.field("instance", instance)
      json.array("errors", errors) { error, json in
        json.field("pointer", error.pointer)
        if let line = error.line { json.field("line", line) }
        json.field("detail", error.detail)
      }
      json.field("action", action ?? usualAction)
    }
    return json.text
  }

  /// What helps with a problem of this kind.
  private var usualAction: String {
    switch status.code {
    case 401: "Send the header \"Authorization: Bearer car_…\"; \"carillon key create\" makes a key."
    case 404: "See which apps the key may see: GET /v1/apps; /v1/openapi.yaml lists all addresses."
    case 409, 412: "Read the current state and try again."
    case 413: "Send less at once."
    case 429, 503: "Retry after the time in Retry-After."
    case 507: "Make room on the disk of journal and store; the log says what cannot be written."
    case 400..<500: "Correct the request: /v1/openapi.yaml describes it."
    default: "Look in the log for the request that the header X-Request-Id names."
    }
  }

  /// - Parameter instance: the path of the request.
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

extension Problem {
  init(_ error: CarillonError) {
    switch error.code {
    case .payload: self.init(.unprocessableContent, "Not sendable", error.message)
    case .gateway:
      self = .unavailable(error.message, retryAfter: 60)
      action = "See the app's state; it continues when the reason is removed."
    case .journal: self.init(.init(code: 507, reasonPhrase: "Insufficient Storage"), "Not durable", error.message)
    default: self = .unavailable(error.message)
    }
    // Notifications can be with the engine by then.
    isDoubtful = error.code == .journal || error.code == .cancelled
  }

  init(_ error: StoreError) {
    switch error.kind {
    case .full: self.init(.init(code: 507, reasonPhrase: "Insufficient Storage"), "Disk full", error.description)
    case .unwritable:
      self.init(.init(code: 507, reasonPhrase: "Insufficient Storage"), "Disk not writable", error.description)
    default: self = .unavailable(error.description)
    }
    isDoubtful = true
  }
}
