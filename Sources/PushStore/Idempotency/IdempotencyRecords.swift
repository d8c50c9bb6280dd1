/// Requests that callers may repeat without their being carried out twice.
package protocol IdempotencyRecords: Sendable {
  /// Notes durably that a request begins, unless one with its key has begun before. Concurrent
  /// calls share a commit, here and below.
  ///
  /// - Parameter oldest: what began before this instant is forgotten.
  func begin(_ request: IdempotentRequest, oldest: StoreInstant) async throws(StoreError) -> IdempotentBeginning
  /// The request was carried out, with this answer.
  func finish(_ request: IdempotentRequest, _ answer: StoredAnswer) async throws(StoreError)
  /// The request was not carried out: its key is free again.
  func withdraw(_ request: IdempotentRequest) async throws(StoreError)
  /// Forgets what began before an instant. Takes several short turns.
  func forgetRequests(begunBefore instant: StoreInstant) async throws(StoreError)
}

/// A request with a key of its caller's choice.
package struct IdempotentRequest: Hashable, Sendable {
  /// The caller that chose the key.
  package var caller: String
  package var key: String
  /// The digest of everything that must be the same in a repeated request.
  package var digest: [UInt8]
  package var begunAt: StoreInstant

  package init(caller: String, key: String, digest: [UInt8], begunAt: StoreInstant) {
    self.caller = caller
    self.key = key
    self.digest = digest
    self.begunAt = begunAt
  }
}

/// The answer to a request.
package struct StoredAnswer: Hashable, Sendable {
  package var status: Int
  package var headers: [String: String]
  package var body: [UInt8]

  package init(status: Int, headers: [String: String], body: [UInt8]) {
    self.status = status
    self.headers = headers
    self.body = body
  }
}

/// What is known of a request that begins.
package enum IdempotentBeginning: Hashable, Sendable {
  /// Nothing: it is to be carried out.
  case new
  case answered(StoredAnswer)
  /// Another request has the same key.
  case different
  /// It has begun before, and has no answer: it is being carried out, or was interrupted.
  case begun
}
