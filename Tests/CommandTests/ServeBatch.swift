internal import Support
internal import Testing

extension ServeSite {
  /// The answer to a batch.
  struct TakenBatch: Decodable {
    struct Defect: Decodable {
      let line: Int
      let detail: String
    }
    let batchId: String
    let queued: Int
    /// Its former name.
    let accepted: Int
    let rejected: Int
    let errors: [Defect]
  }

  /// A batch as the interface shows it afterwards.
  struct Batch: Decodable {
    struct Account: Decodable {
      struct Accepted: Decodable { let confirmed: Int }
      struct Rejected: Decodable {
        let total: Int
        let byReason: [String: Int]
      }
      let submitted: Int
      let accepted: Accepted
      let rejected: Rejected
      let suppressed: Int
      let unknown: Int
      let inFlight: Int
      let possibleDuplicates: Int
      let possibleCopies: Int
    }
    let state: String
    let account: Account
  }

  /// The account of a batch of the app `news` once it is final.
  ///
  /// - Parameter context: for messages.
  func account(
    of batch: String, _ service: Service, key: String, _ context: String = ""
  ) async throws -> Batch.Account {
    var last: Batch?
    try await waitUntil("the batch \(batch) has ended\(context)") {
      let reply = try await request(service.api, "/v1/apps/news/batches/\(batch)", key: key)
      try #require(reply.status == 200, "\(reply.text)\(context)")
      last = try reply.decoded(Batch.self)
      return last?.state == "finished"
    }
    return try #require(last).account
  }
}
