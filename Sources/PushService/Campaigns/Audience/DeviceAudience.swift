internal import Carillon
internal import PushEngine
internal import PushStore
internal import PushWire

/// Devices of the store as the audience of a campaign.
typealias DeviceAudience = PagedAudience<CampaignMember>

/// A device, and what it is to a campaign.
struct CampaignMember: Sendable {
  var device: AudienceDevice
  /// Ready, or why it does not get it.
  var kind: AudienceEntry.Kind
}

extension DeviceAudience {
  /// - Parameter key: of the last device that was read before; 0: none.
  convenience init(after key: Int64, payloads: VariantPayloads, clock: any ServiceClock, pages: @escaping Pages) {
    self.init(after: key, pages: pages, pause: { try? await clock.sleep(for: .milliseconds(200)) }) {
      page, index, chunk, _ in
      var next = index
      while next < page.count, chunk.append(page[next], payloads) { next += 1 }
      return next
    }
  }
}

extension AudienceChunk {
  func append(_ member: CampaignMember, _ payloads: VariantPayloads) -> Bool {
    // The store has only tokens that were checked, and none of a device that has left.
    append(
      key: member.device.key, token: TokenBytes(bytes: member.device.token),
      payload: payloads.payload(member.device.language), kind: member.kind)
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
