internal import Carillon
internal import Foundation
internal import PushWire

extension ServiceFailure {
  private struct Problem: Decodable {
    struct Detail: Decodable {
      let pointer: String?
      let line: Int?
      let detail: String
    }
    let detail: String
    let errors: [Detail]?
    let action: String?
  }

  /// The failure of an answer that is no success, from the problem that its body should hold.
  init(_ reply: ServiceReply, to request: APIRequest, of address: ServiceAddress) {
    status = reply.status
    guard let problem = try? JSONDecoder().decode(Problem.self, from: Data(reply.body)) else {
      sentence = "\(address) has answered \(request.method.rawValue) \(request.path) with \(reply.status)"
      return
    }
    var parts = [problem.detail]
    for error in problem.errors ?? [] where error.detail != problem.detail || error.pointer != nil {
      let place = error.pointer ?? error.line.map { "line \($0)" } ?? ""
      parts.append(error.detail == problem.detail ? "It is about \(place)." : "\(place): \(error.detail)")
    }
    if let action = problem.action { parts.append(action) }
    sentence = parts.map(\.asSentence).joined(separator: " ")
    if let errors = problem.errors, errors.count == 1, let pointer = errors[0].pointer {
      field = Field(pointer: pointer, detail: errors[0].detail)
    }
  }
}

extension ServiceReply {
  /// - Throws: ``ServiceFailure`` when the body is something else.
  func decoded<Value: Decodable>(_ type: Value.Type) throws(ServiceFailure) -> Value {
    do { return try JSONDecoder().decode(type, from: Data(body)) } catch {
      throw ServiceFailure(
        status: status, "The service has answered something else than this version of carillon expects: \(error)")
    }
  }
}
