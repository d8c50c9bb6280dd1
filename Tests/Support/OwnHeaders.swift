package import PushTransport
package import PushWire

/// Calls `body` with headers of one notification, which are valid during the call.
package func withOwnHeaders<Result>(
  identifier: APNSIdentifier?, expiration: UInt32? = nil, collapse: [UInt8],
  _ body: (RingRecord.OwnHeaders) -> Result
) -> Result {
  let identifierByteCount = identifier == nil ? 0 : RingRecord.OwnHeaders.identifierByteCount
  let expirationByteCount = expiration == nil ? 0 : RingRecord.OwnHeaders.expirationByteCount
  var bytes = [UInt8](repeating: 0, count: identifierByteCount + expirationByteCount) + collapse
  let code = RingRecord.OwnHeaders.code(
    hasIdentifier: identifier != nil, hasExpiration: expiration != nil, collapseIdentifierByteCount: collapse.count)
  return unsafe bytes.withUnsafeMutableBytes { memory in
    if let identifier, let start = memory.baseAddress { unsafe RingRecord.OwnHeaders.write(identifier, to: start) }
    if let expiration, let start = memory.baseAddress {
      unsafe RingRecord.OwnHeaders.write(expiration: expiration, to: start + identifierByteCount)
    }
    return unsafe body(RingRecord.OwnHeaders(code: code, start: memory.baseAddress.map { UnsafeRawPointer($0) }))
  }
}
