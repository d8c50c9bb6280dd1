package import Carillon
package import HTTPTypes
package import PushStore
internal import PushWire

/// Why a request was not served, as RFC 9457 has it.
package struct Problem: Error, Sendable {
  /// One thing that is wrong with a request's body.
  package struct Detail: Sendable {
    /// Where in the body, as RFC 6901 has it, such as `/payload`; nil in a list of lines.
    package var pointer: String?
    /// The line in the body, from 1.
    package var line: Int?
    package var detail: String

    package init(pointer: String? = nil, line: Int? = nil, detail: String) {
      (self.pointer, self.line, self.detail) = (pointer, line, detail)
    }
  }

  package var status: HTTPResponse.Status
  package var title: String
  package var detail: String
  package var errors: [Detail] = []
  package var action: String?
  /// Seconds.
  package var retryAfter: Int?
  /// What was asked for may have been done in part, or as a whole.
  package var isDoubtful = false
  /// The methods of the address, with 405.
  package var allow: String?

  /// - Parameter pointer: what is wrong in the request's body.
  package init(
    _ status: HTTPResponse.Status, _ title: String, _ detail: String, pointer: String? = nil, action: String? = nil,
    errors: [Detail] = [], retryAfter: Int? = nil
  ) {
    (self.status, self.title, self.detail, self.action) = (status, title, detail, action)
    self.errors = pointer.map { [Detail(pointer: $0, detail: detail)] } ?? errors
    self.retryAfter = retryAfter
  }

  package static let notFound = Problem(
    .notFound, "Not found", "There is nothing at this address, or this key may not see it.")

  /// - Parameter what: such as `campaign 0190…`. Nothing else says whether it exists for others.
  package static func missing(_ what: String) -> Problem { Problem(.notFound, "Not found", "There is no \(what).") }

  /// An app that is not there, or that the key is not for.
  package static func missing(app id: String) -> Problem {
    Problem(.notFound, "Not found", "There is no app \(id.cited) that this key may see.")
  }

  /// - Parameter path: of what is served on the other listener.
  package static func elsewhere(_ path: String) -> Problem {
    Problem(
      .notFound, "Not found", "\(path) is not on this address.",
      action: "Ask the address that admin.listen of the configuration names.")
  }

  package static func malformed(_ detail: String, pointer: String? = nil) -> Problem {
    Problem(.badRequest, "Bad request", detail, pointer: pointer)
  }

  package static func unavailable(_ detail: String, retryAfter: Int = 5) -> Problem {
    Problem(.serviceUnavailable, "Service unavailable", detail, retryAfter: retryAfter)
  }

  /// - Parameter instance: the path of the request.
  package func text(instance: String?) -> String {
    return JSONWriter.text { json in
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
}

extension Problem {
  /// Nil: it is of no kind that a service throws by itself.
  package init?(known error: any Error) {
    switch error {
    case let problem as Problem: self = problem
    case let error as CarillonError: self.init(error)
    case let error as StoreError: self.init(error)
    default: return nil
    }
  }

  package init(_ error: CarillonError) {
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

  package init(_ error: StoreError) {
    switch error.kind {
    case .full: self.init(.init(code: 507, reasonPhrase: "Insufficient Storage"), "Disk full", error.description)
    case .unwritable:
      self.init(.init(code: 507, reasonPhrase: "Insufficient Storage"), "Disk not writable", error.description)
    default: self = .unavailable(error.description)
    }
    isDoubtful = true
  }
}
