internal import PushEngine
internal import PushWire
internal import Synchronization

/// The recipients of a campaign of `carillon send`.
final class SendAudience: AudienceSource {
  private enum Source: Sendable {
    case file(AudienceFile)
    case channel(String)
  }

  private let source: Source
  private let isSpent = Atomic<Bool>(false)

  private init(_ source: Source) { self.source = source }

  static func file(_ file: AudienceFile) -> SendAudience { SendAudience(.file(file)) }

  /// One broadcast: an entry without a device, which its request does not name.
  static func channel(_ identifier: String) -> SendAudience { SendAudience(.channel(identifier)) }

  /// The columns of the file that say headers of single notifications, as they are written.
  var headerColumns: [String] {
    guard case .file(let file) = source else { return [] }
    return [file.header.identifierColumn, file.header.collapseColumn].compactMap { $0.map { file.header.columns[$0] } }
  }

  /// Nil for a broadcast.
  var file: AudienceFile? { if case .file(let file) = source { file } else { nil } }

  /// What lists show instead of a token.
  var channelIdentifier: String? { if case .channel(let identifier) = source { identifier } else { nil } }

  /// The file's size; nil for a pipe.
  var byteCount: Int? {
    switch source {
    case .file(let file): file.byteCount
    case .channel: 1
    }
  }

  var consumedByteCount: Int {
    switch source {
    case .file(let file): file.consumedByteCount
    case .channel: isSpent.load(ordering: .relaxed) ? 1 : 0
    }
  }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    switch source {
    case .file(let file): return try file.fill(chunk)
    case .channel:
      // A notification has at least one byte of token; the request's path is the channel's, and
      // does not say it.
      guard !isSpent.exchange(true, ordering: .relaxed), let nobody = TokenBytes(bytes: [0]) else {
        chunk.removeAll()
        return .end
      }
      return try TokenList([nobody]).fill(chunk)
    }
  }
}
