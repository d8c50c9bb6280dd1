internal import PushWire
internal import Synchronization

/// Reasons of an app's service that are not in our table, as accounts and lists show them.
///
/// Their number is bounded, since each is an entry of an account. Further ones become ``another``.
/// A known reason allocates nothing.
final class UnknownReasons: Sendable {
  /// The same reason with two statuses counts as two.
  static let limit = 64
  static let another = "another reason"

  private struct Known {
    let status: UInt16
    /// The reason as the service wrote it, cut at the length that is shown.
    let bytes: [UInt8]
    let text: String
  }

  private let known = Mutex<[Known]>([])

  /// The text to show for these bytes.
  func text(status: UInt16, _ bytes: UnsafeRawBufferPointer) -> String {
    let start = unsafe UnsafeRawBufferPointer(rebasing: bytes.prefix(ProviderRefusal.otherReasonReadByteCount))
    // The call ends before the buffer does.
    nonisolated(unsafe) let sample = unsafe start
    return known.withLock { known in
      for entry in known where entry.status == status {
        if unsafe entry.bytes.elementsEqual(sample) { return entry.text }
      }
      guard known.count < Self.limit else { return Self.another }
      let entry = unsafe Known(
        status: status, bytes: Array(sample), text: ProviderRefusal.printable(Span(_unsafeBytes: sample)))
      known.append(entry)
      return entry.text
    }
  }
}
