internal import Foundation
internal import Glibc
internal import HTTPTypes
internal import PushServer

struct APIRequest: Sendable {
  enum Method: String, Sendable {
    case get = "GET", post = "POST", put = "PUT", patch = "PATCH", delete = "DELETE"
  }

  enum Body: Sendable {
    case none
    case bytes([UInt8])
    /// A file, read in blocks. `-` is standard input.
    case file(String)
  }

  var method: Method
  /// Such as `/v1/apps/news`. Whatever comes from outside must be written as a path segment.
  var path: String
  var query: [(name: String, value: String)] = []
  var headers: [(name: String, value: String)] = []
  var body = Body.none
  /// Called with the bytes of a file that were sent so far.
  var sent: (@Sendable (Int) -> Void)?

  init(_ method: Method, _ path: String) { (self.method, self.path) = (method, path) }

  static func get(_ path: String, query: [(name: String, value: String)] = []) -> APIRequest {
    var request = APIRequest(.get, path)
    request.query = query
    return request
  }

  /// - Parameter json: the body; nil: none.
  static func post(_ path: String, json: String? = nil) -> APIRequest { APIRequest(.post, path).with(json: json) }

  static func patch(_ path: String, json: String) -> APIRequest { APIRequest(.patch, path).with(json: json) }

  /// - Parameters:
  ///   - file: its path. `-` is standard input.
  ///   - type: such as `text/csv`.
  ///   - sent: called with the bytes that were sent so far.
  static func upload(_ path: String, file: String, type: String, sent: (@Sendable (Int) -> Void)? = nil) -> APIRequest {
    var request = APIRequest(.post, path)
    request.sent = sent
    request.headers.append(("content-type", type))
    request.body = .file(file)
    return request
  }

  private func with(json: String?) -> APIRequest {
    guard let json else { return self }
    var request = self
    request.headers.append(("content-type", "application/json"))
    request.body = .bytes(Array(json.utf8))
    return request
  }

  var target: String {
    query.isEmpty
      ? path
      : path + "?" + query.map { "\($0.name.asPathSegment)=\($0.value.asPathSegment)" }.joined(separator: "&")
  }
}

struct ServiceReply: Sendable {
  var status: Int
  /// Names in lower case.
  var headers: [String: String]
  var body: [UInt8]
}

/// Why a request to a running service was not served.
struct ServiceFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// Of the answer; nil: there was none.
  var status: Int?
  /// What is wrong and what helps.
  var sentence: String
  /// The one field of the request's body that is wrong, as RFC 6901 has it, and why.
  var field: Field?

  struct Field: Hashable, Sendable {
    let pointer: String
    let detail: String
  }

  init(status: Int? = nil, _ sentence: String) { (self.status, self.sentence) = (status, sentence) }

  var description: String { sentence }
}

/// A file that is sent in blocks.
final class UploadedFile {
  private let handle: FileHandle
  private let path: String

  private static let blockByteCount = 64 << 10

  /// - Parameter path: `-` is standard input.
  /// - Throws: ``ServiceFailure``.
  init(_ path: String) throws {
    self.path = path
    do { handle = path == "-" ? .standardInput : try FileHandle(forReadingFrom: URL(filePath: path)) } catch {
      throw ServiceFailure("\(path) cannot be read; check the path and its permissions.")
    }
  }

  /// - Returns: nil at the end of the file.
  func next() throws -> [UInt8]? {
    do {
      guard let data = try handle.read(upToCount: Self.blockByteCount), !data.isEmpty else { return nil }
      return Array(data)
    } catch {
      throw ServiceFailure("\(path) cannot be read to its end.")
    }
  }
}
