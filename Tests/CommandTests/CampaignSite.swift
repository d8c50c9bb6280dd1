internal import Foundation
internal import FoundationNetworking
internal import Support
internal import Testing

/// A client of the interface's campaigns, of the app `news`.
struct CampaignSite {
  struct Campaign: Decodable {
    struct Upload: Decodable, Equatable {
      let lines: Int
      let complete: Bool
    }
    struct Progress: Decodable {
      let submitted: Int
      let accepted: Int
      let inFlight: Int
      let total: Int?
      let fractionDone: Double?
      let secondsLeft: Int?
    }
    let id: String
    let name: String
    let state: String
    let reason: String?
    let upload: Upload?
    let startedAt: String?
    let endedAt: String?
    let firstStartAt: String?
    let lastStartAt: String?
    let progress: Progress
  }

  struct Answer {
    let status: Int
    let headers: [String: String]
    let body: Data

    func decoded<Value: Decodable>(_ type: Value.Type) throws -> Value {
      do { return try JSONDecoder().decode(type, from: body) } catch {
        throw Unexpected(text: "\(status) \(text): \(error)")
      }
    }
    var text: String { String(decoding: body, as: UTF8.self) }
  }

  struct Unexpected: Error {
    let text: String
  }

  let service: ServeSite.Service
  let key: String
  private let session = URLSession(configuration: .ephemeral)

  init(_ service: ServeSite.Service, key: String) { (self.service, self.key) = (service, key) }

  static let hello = #"{"aps":{"alert":"Hello"}}"#

  /// - Parameter path: behind `/v1/apps/news`.
  func call(
    _ method: String, _ path: String, _ body: String? = nil, headers: [String: String] = [:]
  ) async throws -> Answer {
    try await call(method, path, data: body.map { Data($0.utf8) }, headers: headers)
  }

  func call(
    _ method: String, _ path: String, data: Data?, headers: [String: String] = [:]
  ) async throws -> Answer {
    let reply = try await service.api.request(
      "/v1/apps/news\(path)", key: key, body: data, method: method, headers: headers, over: session)
    return Answer(status: reply.status, headers: reply.headers, body: reply.body)
  }

  /// Makes a campaign. Returns its path.
  func make(_ rest: String = "", name: String = "sale", payload: String = hello) async throws -> String {
    let answer = try await call("POST", "/campaigns", #"{"name":"\#(name)","payload":\#(payload)\#(rest)}"#)
    guard answer.status == 201 else { throw Unexpected(text: answer.text) }
    return "/campaigns/\(try answer.decoded(Campaign.self).id)"
  }

  func upload(
    _ path: String, _ lines: some Sequence<String>, headers: [String: String] = ["Content-Type": "text/csv"]
  ) async throws -> Campaign.Upload {
    let answer = try await call("POST", "\(path)/audience", lines.joined(separator: "\n") + "\n", headers: headers)
    guard answer.status == 200 else { throw Unexpected(text: answer.text) }
    return try answer.decoded(Campaign.Upload.self)
  }

  @discardableResult
  func act(_ path: String, _ action: String, status: Int = 202) async throws -> Answer {
    let answer = try await call("POST", "\(path):\(action)")
    guard answer.status == status else { throw Unexpected(text: "\(action): \(answer.status) \(answer.text)") }
    return answer
  }

  func campaign(_ path: String) async throws -> Campaign { try await call("GET", path).decoded(Campaign.self) }

  func account(_ path: String) async throws -> SentAccount.App {
    try #require(try await call("GET", "\(path)/account").decoded(SentAccount.self).apps["news"])
  }

  /// The campaign once its account is final.
  func ended(_ path: String) async throws -> Campaign {
    var last: Campaign?
    try await waitUntil("the campaign has ended") {
      last = try await campaign(path)
      return last?.endedAt != nil
    }
    return try #require(last)
  }

  /// Rows of the list of what was not accepted, without its header.
  func outcomes(_ path: String) async throws -> [[String]] {
    let text = try await call("GET", "\(path)/outcomes.csv").text
    return text.split(separator: "\n").dropFirst().map {
      $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    }
  }
}
