internal import HTTPTypes
package import PushEngine

/// The columns of an audience that was uploaded. They were fixed then: of NDJSON only those values
/// were kept that the payloads named.
package struct AudienceColumns: Sendable {
  /// Nil: nothing was uploaded, or the audience cannot be read, which its beginning will say.
  private let names: [String]?

  package init(_ audience: KeptAudience) {
    names = audience.byteCount > 0 ? (try? AudienceFile(audience))?.header.columns : nil
  }

  /// - Throws: ``Problem`` with 409 if a change asks for a value that the audience does not have.
  package func check(_ plan: CampaignPlan, insteadOf old: CampaignPlan) throws {
    guard let names, plan.source == .upload else { return }
    let known = Set(old.placeholders + names)
    guard let missing = plan.placeholders.first(where: { !known.contains($0) }) else { return }
    throw Problem(
      .conflict, "No column", "The audience that was uploaded has no values for {{\(missing)}}.",
      action: "Make another campaign with this payload, and upload its audience there.")
  }
}
