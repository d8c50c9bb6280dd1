/// A request with a key of its caller's choice.
package struct IdempotentRequest: Hashable, Sendable {
  /// The caller that chose the key.
  package var caller: String
  package var key: String
  /// The digest of everything that must be the same in a repeated request.
  package var digest: [UInt8]
  package var begunAt: StoreInstant
  /// The incarnation of the process that carries it out; 0: no other one can use the store.
  package var holder: Int64
  /// Tells this attempt from all others: whoever has lost an answer asks again.
  package let attempt: Int64

  package init(caller: String, key: String, digest: [UInt8], begunAt: StoreInstant, holder: Int64 = 0) {
    (self.caller, self.key, self.digest, self.begunAt) = (caller, key, digest, begunAt)
    (self.holder, attempt) = (holder, .random(in: 1 ... .max))
  }
}

package struct StoredAnswer: Hashable, Sendable {
  package var status: Int
  package var headers: [String: String]
  package var body: [UInt8]

  package init(status: Int, headers: [String: String], body: [UInt8]) {
    (self.status, self.headers, self.body) = (status, headers, body)
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
  /// Another process that is alive has begun it, and there is no answer yet.
  case begunElsewhere
}
