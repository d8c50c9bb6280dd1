internal import Foundation
internal import Support

/// What `carillon journal inspect --json` prints.
struct JournalInspection: Decodable {
  struct Campaign: Decodable {
    let number: Int
    let app: String
    let finished: Bool
    let submitted: Int
    let accepted: Int
    let rejected: Int
    let settled: Int
    let unsent: Int
    let unknown: Int
    let lost: Int
    let line: Int
  }

  struct Segment: Decodable {
    let name: String
    let bytes: Int
    let records: Int
  }

  let campaigns: [Campaign]
  let segments: [Segment]
  let bytes: Int
  let closed: Bool
  let tornTail: String?
  let damage: [String]

  init(_ ending: Ending) throws {
    self = try JSONDecoder().decode(JournalInspection.self, from: Data(ending.output.utf8))
  }
}
