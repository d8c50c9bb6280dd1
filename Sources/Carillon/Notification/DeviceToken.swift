package import PushWire

/// Names one app on one device: the bytes that the app got from the system when it registered.
///
/// Tokens have 32 bytes at present and may have up to 100. They are opaque: compare them, store
/// them, send to them, and do not look into them.
public struct DeviceToken: Hashable, Sendable {
  let wire: TokenBytes

  package init(_ wire: TokenBytes) { self.wire = wire }

  /// Reads a token as apps usually send it to their server.
  ///
  /// Digits may have either case. Spaces and one pair of `<>` around the whole are ignored.
  ///
  /// - Parameter hex: two hexadecimal digits for each byte.
  /// - Throws: ``CarillonError/ErrorCode/audience`` if that is no token. The message does
  ///   not repeat the text.
  public init(hex: String) throws(CarillonError) {
    do throws(DeviceTokenError) {
      wire = try TokenBytes(parsing: hex)
    } catch {
      throw CarillonError(.audience, error.description)
    }
  }

  /// Takes the token's bytes.
  ///
  /// - Parameter bytes: 1 to 100 of them.
  /// - Throws: ``CarillonError/ErrorCode/audience`` if there are none or more than 100.
  public init(bytes: some Collection<UInt8>) throws(CarillonError) {
    guard let wire = TokenBytes(bytes: bytes) else {
      throw CarillonError(.audience, "A device token has 1 to 100 bytes, not \(bytes.count).")
    }
    self.wire = wire
  }

  /// The token in lower-case hexadecimal digits.
  public var hex: String { wire.description }

  /// The token's bytes, 1 to 100.
  public var bytes: [UInt8] { wire.bytes }
}

extension DeviceToken: CustomStringConvertible {
  /// The first eight digits: enough to recognise a token in a log that must not hold it.
  public var description: String { hex.count > 8 ? hex.prefix(8) + "…" : hex }
}
