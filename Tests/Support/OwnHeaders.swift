package import PushTransport
package import PushWire

/// Calls `body` with headers of one notification, which are valid during the call.
package func withOwnHeaders<Result>(
  identifier: APNSIdentifier?, collapse: [UInt8], _ body: (RingRecord.OwnHeaders) -> Result
) -> Result {
  var bytes = [UInt8](repeating: 0, count: identifier == nil ? 0 : RingRecord.OwnHeaders.identifierByteCount) + collapse
  let code = RingRecord.OwnHeaders.code(hasIdentifier: identifier != nil, collapseIdentifierByteCount: collapse.count)
  return unsafe bytes.withUnsafeMutableBytes { memory in
    if let identifier, let start = memory.baseAddress { unsafe RingRecord.OwnHeaders.write(identifier, to: start) }
    return unsafe body(RingRecord.OwnHeaders(code: code, start: memory.baseAddress.map { UnsafeRawPointer($0) }))
  }
}
