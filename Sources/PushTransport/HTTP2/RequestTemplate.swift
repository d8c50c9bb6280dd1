package import PushWire

/// The headers and payload that all requests of a campaign share, made once.
///
/// The path and a notification's own values are filled in when a request is submitted.
@safe
package final class RequestTemplate: @unchecked Sendable {
  // Sync: written only in init, afterwards only read.

  struct Field {
    let name: [UInt8]
    let value: [UInt8]
    let isIndexed: Bool

    init(_ field: HTTP2Field) {
      (name, value, isIndexed) = (Array(field.name.utf8), Array(field.value.utf8), field.isIndexed)
    }
  }

  /// The first four are :method, :scheme, :authority and :path. The path's value is empty for
  /// requests to devices.
  let fields: [Field]
  /// Where the headers are that a notification may override; nil: the campaign does not have the
  /// header.
  let expirationIndex: Int?
  let priorityIndex: Int?
  let collapseIndex: Int?
  /// Requests go to `/3/device/` followed by the token.
  let isForDevices: Bool
  private let payloadBytes: UnsafeMutableRawBufferPointer

  static let pathIndex = 3
  /// Headers beside those that every request has.
  private static let fieldCountLimit = 15

  /// - Parameters:
  ///   - authority: host, with the port unless it is 443.
  ///   - headers: checked before (``ProviderHeaders/check(payload:credential:)``).
  ///   - payload: for all requests without one of their own.
  package convenience init(
    authority: String, headers: ProviderHeaders, credential: ProviderCredentialKind, payload: [UInt8]
  ) {
    let topic = headers.effectiveTopic(for: credential)
    var path = ""
    var list: [HTTP2Field] = []
    if let channel = headers.channelIdentifier {
      path = "/4/broadcasts/apps/\(headers.bundleIdentifier(for: credential) ?? "")"
      list.append(HTTP2Field("apns-channel-id", channel))
    } else if let topic {
      list.append(HTTP2Field("apns-topic", topic))
    }
    list.append(HTTP2Field("apns-push-type", headers.pushType.rawValue))
    if let priority = headers.effectivePriority { list.append(HTTP2Field("apns-priority", String(priority))) }
    if let expiration = headers.expiration { list.append(HTTP2Field("apns-expiration", String(expiration))) }
    if let collapse = headers.collapseIdentifier { list.append(HTTP2Field("apns-collapse-id", collapse)) }
    self.init(
      method: "POST", authority: authority, path: path, fields: list, payload: payload, isForDevices: path.isEmpty)
  }

  /// A request of any kind: for the management of channels, and for tests.
  package convenience init(method: String, authority: String, path: String, fields: [HTTP2Field], payload: [UInt8]) {
    self.init(method: method, authority: authority, path: path, fields: fields, payload: payload, isForDevices: false)
  }

  private init(
    method: String, authority: String, path: String, fields: [HTTP2Field], payload: [UInt8], isForDevices: Bool
  ) {
    precondition(
      fields.count <= Self.fieldCountLimit,
      "at most \(Self.fieldCountLimit) headers beside those that every request has")
    let all =
      [
        HTTP2Field(":method", method), HTTP2Field(":scheme", "https"), HTTP2Field(":authority", authority),
        HTTP2Field(":path", path, isIndexed: false),
      ] + fields
    self.fields = all.map(Field.init)
    self.isForDevices = isForDevices
    expirationIndex = all.firstIndex { $0.name == "apns-expiration" }
    priorityIndex = all.firstIndex { $0.name == "apns-priority" }
    collapseIndex = all.firstIndex { $0.name == "apns-collapse-id" }
    unsafe payloadBytes = .allocate(byteCount: max(payload.count, 1), alignment: 16)
    payloadByteCount = payload.count
    unsafe payloadBytes.copyBytes(from: payload)
  }

  deinit { unsafe payloadBytes.deallocate() }

  package let payloadByteCount: Int
  /// Valid as long as the template.
  package var payload: UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(rebasing: payloadBytes[..<payloadByteCount])
  }
}

/// A notification's own values. Nil means the campaign's value.
@safe
package struct RequestOverrides {
  package var expiration: UInt32?
  package var priority: UInt8?
  /// Checked before. Read only during the call.
  package var collapseIdentifier: UnsafeRawBufferPointer?
  /// Replaces the template's payload. The bytes must not change until the stream has ended.
  package var payload: UnsafeRawBufferPointer?

  package init() {}
}
