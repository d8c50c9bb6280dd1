internal import HTTPTypes
internal import Hummingbird
internal import PushService

enum MediaType: String, CaseIterable, Sendable {
  case json = "application/json"
  case lines = "application/x-ndjson"
  case csv = "text/csv"

  /// A header without parameters; nil: none of these.
  init?(header: String) {
    let name = (header.split(separator: ";").first ?? "").trimmingBlanks.lowercased()
    switch name {
    case "application/ndjson", "application/jsonl", "application/jsonlines": self = .lines
    default: self.init(rawValue: name)
    }
  }
}

extension Request {
  /// - Parameter types: those that the body may have.
  /// - Returns: the type of the body; nil if the request does not say it. What curl and others say
  ///   of any body, `application/x-www-form-urlencoded`, says nothing.
  /// - Throws: ``Problem`` with 415 for another type, or for a compressed body.
  @discardableResult
  func bodyType(_ types: [MediaType]) throws -> MediaType? {
    if let encoding = headers[.contentEncoding], encoding.lowercased() != "identity" {
      throw Problem(
        .unsupportedMediaType, "Unsupported encoding", "The body is compressed (\(encoding)).",
        action: "Send it without Content-Encoding.")
    }
    guard let header = headers[.contentType] else { return nil }
    if header.lowercased().hasPrefix("application/x-www-form-urlencoded") { return nil }
    guard let type = MediaType(header: header), types.contains(type) else {
      throw Problem(
        .unsupportedMediaType, "Unsupported media type", "The body cannot be of the type \(header).",
        action: "Send Content-Type: \(types.map(\.rawValue).joined(separator: " or ")).")
    }
    return type
  }
}

extension Substring {
  fileprivate var trimmingBlanks: Substring {
    let start = drop { $0 == " " || $0 == "\t" }
    return start.lastIndex { $0 != " " && $0 != "\t" }.map { start[...$0] } ?? ""
  }
}
