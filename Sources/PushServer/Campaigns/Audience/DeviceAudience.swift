internal import Carillon
internal import PushEngine
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Synchronization

/// Devices of the store as the audience of a campaign: one page is sent while the next one is read,
/// and no more is held.
///
/// A device's line is its key, which never changes. So a campaign that is resumed goes on behind
/// the last key that was read, whatever was registered or deleted meanwhile.
final class DeviceAudience: AudienceSource {
  /// Reads devices behind a key, in order: at most so many, and the key behind which the next ones
  /// are; nil at the end.
  typealias Pages = @Sendable (_ key: Int64, _ limit: Int) async throws -> (devices: [AudienceDevice], next: Int64?)

  private struct State {
    var page: [AudienceDevice] = []
    /// Those of the page before it have been read.
    var next = 0
    /// The page after it.
    var following: [AudienceDevice]?
    var isFinished = false
    var problem: String?
    var signal: ReaderSignal?
  }

  private let pages: Pages
  private let payloads: VariantPayloads
  private let firstKey: Int64
  private let state = Mutex(State())
  /// Set when another page may be read.
  private let room = ReaderSignal()

  private static let pageLimit = 4096
  /// So that a store that is busy for a moment ends no campaign.
  private static let attemptLimit = 5

  /// - Parameter key: of the last device that was read before; 0: none.
  init(after key: Int64, payloads: VariantPayloads, pages: @escaping Pages) {
    firstKey = key
    self.payloads = payloads
    self.pages = pages
  }

  /// Reads pages until the end, or until the task is cancelled.
  func feed() async {
    var key = firstKey
    var failureCount = 0
    while !Task.isCancelled {
      do {
        let page = try await pages(key, Self.pageLimit)
        failureCount = 0
        if !page.devices.isEmpty { guard await put(page.devices) else { return } }
        guard let next = page.next else { return finish(nil) }
        key = next
      } catch {
        failureCount += 1
        guard failureCount < Self.attemptLimit else { return finish("\(error)") }
        try? await Task.sleep(for: .milliseconds(200))
      }
    }
  }

  /// False once the task is cancelled.
  private func put(_ page: [AudienceDevice]) async -> Bool {
    return await room.retry {
      let (isTaken, signal) = state.withLock { state -> (Bool, ReaderSignal?) in
        guard state.following == nil else { return (false, nil) }
        state.following = page
        return (true, state.signal)
      }
      signal?.set()
      return isTaken
    }
  }

  private func finish(_ problem: String?) {
    // The end of the task is not the end of the devices: the journal must not call it complete.
    guard !Task.isCancelled else { return }
    let signal = state.withLock { state in
      state.isFinished = true
      state.problem = problem
      return state.signal
    }
    signal?.set()
  }

  // MARK: AudienceSource

  func attach(_ signal: ReaderSignal) { state.withLock { $0.signal = signal } }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    let (supply, problem, hasRoom) = state.withLock { state -> (AudienceSupply, String?, Bool) in
      var hasRoom = false
      if state.next == state.page.count, let following = state.following {
        (state.page, state.next, state.following) = (following, 0, nil)
        hasRoom = true
      }
      while state.next < state.page.count, take(state.page[state.next], into: chunk) { state.next += 1 }
      if chunk.count > 0 { return (.entries, nil, hasRoom) }
      return state.isFinished && state.following == nil ? (.end, state.problem, hasRoom) : (.waiting, nil, hasRoom)
    }
    if hasRoom { room.set() }
    if let problem { throw AudienceError(path: "", problem: .cannotRead(problem)) }
    return supply
  }

  private func take(_ device: AudienceDevice, into chunk: AudienceChunk) -> Bool {
    let payload = payloads.payload(device.language)
    guard chunk.hasRoom(payloadByteCount: payload.count) else { return false }
    let line = UInt64(clamping: device.key)
    // The store has only tokens that were checked.
    guard let token = PushWire.DeviceToken(bytes: device.token) else { return true }
    if chunk.count == 0 { chunk.mark = AudienceMark(offset: line - 1, line: line) }
    if device.isSuppressed {
      chunk.appendUnusable(line: line, token: token, .suppressed)
    } else {
      chunk.append(line: line, token: token, payload: payload)
    }
    return true
  }
}

/// The payloads of a campaign by language. Empty: the campaign's own.
struct VariantPayloads: Sendable {
  private let original: [UInt8]
  private let variants: [String: [UInt8]]

  init(_ plan: CampaignPlan) {
    variants = plan.variants
    original = plan.variants.isEmpty ? [] : plan.notification.json
  }

  /// The one for a device's language: of the language itself, of the longest beginning of its tag,
  /// or the campaign's.
  func payload(_ language: String?) -> [UInt8] {
    guard !variants.isEmpty, let language else { return original }
    return variants[language] ?? LanguageTag.best(language, in: variants) ?? original
  }
}
