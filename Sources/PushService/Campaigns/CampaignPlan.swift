package import Carillon
internal import Foundation
internal import HTTPTypes
internal import PushEngine
package import PushStore
package import PushWire

/// What a campaign is to do, as it was asked for.
package struct CampaignPlan: Sendable {
  package enum Source: String, Sendable { case upload, devices }

  package enum Start: Hashable, Sendable {
    /// When it is started.
    case now
    case at(StoreInstant)
    case local(LocalSend)
  }

  /// As it is stored and shown: checked, in the order in which it came.
  package private(set) var members: [JSONMember]
  private(set) var name = ""
  package private(set) var notification: PushNotification
  /// Payloads by language, in lower case.
  package private(set) var variants: [String: [UInt8]] = [:]
  package private(set) var source = Source.upload
  package private(set) var filter = AudienceFilter()
  package private(set) var start = Start.now
  /// Notifications per second.
  package private(set) var rateLimit: Int?
  /// In seconds; 0: not stored.
  private(set) var expiresAfter: Int?
  private(set) var quietHours: QuietHoursChoice?
  private(set) var isDryRun = false
  /// Those who have got enough lately get it, too.
  private(set) var ignoresCaps = false
  /// Of its audience, chosen for this campaign, who do not get it. Nil: none.
  private(set) var holdoutPercent: Int?

  private static let fields =
    FieldReader.notificationFields + [
      "name", "variants", "audience", "sendAt", "localSend", "rateLimit", "expiresAfter", "quietHours", "dryRun",
      "ignoreCaps", "holdoutPercent",
    ]
  private static let nameLimit = 100
  private static let variantLimit = 200
  private static let rateRange = 1...100_000_000
  package static let holdoutRange = 1...99
  private static let expiryRange = 0...(366 * 86_400)

  /// - Throws: ``Problem`` with 400 naming the field that is wrong.
  package init(parsing bytes: ArraySlice<UInt8>) throws {
    try self.init(JSONBody.members(bytes))
  }

  /// The same with some members replaced; null removes one.
  package func changed(by bytes: ArraySlice<UInt8>) throws -> CampaignPlan {
    var members = members
    for change in try JSONBody.members(bytes) {
      members.removeAll { $0.key == change.key }
      if change.value != .null { members.append(change) }
    }
    return try CampaignPlan(members)
  }

  /// The same under another name, to begin when it is started.
  package func copy() throws -> CampaignPlan {
    let suffix = " (copy)"
    let name = String(String.UnicodeScalarView(self.name.unicodeScalars.prefix(Self.nameLimit - suffix.count))) + suffix
    let others = members.filter { !["name", "sendAt", "localSend"].contains($0.key) }
    return try CampaignPlan([JSONMember("name", .string(name))] + others)
  }

  private init(_ members: [JSONMember]) throws {
    self.members = members.filter { $0.value != .null }
    let fields = try FieldReader(members, fields: Self.fields)
    notification = try fields.notification()
    guard let name = try fields.text("name"), !name.isEmpty, name.unicodeScalars.count <= Self.nameLimit else {
      throw fields.wrong("name", "The campaign needs a name of at most \(Self.nameLimit) characters.")
    }
    self.name = name
    try readVariants(fields)
    try readAudience(fields)
    try readStart(fields)
    rateLimit = try fields.integer("rateLimit", in: Self.rateRange)
    expiresAfter = try fields.integer("expiresAfter", in: Self.expiryRange)
    if let text = try fields.text("quietHours") {
      guard let choice = QuietHoursChoice(text) else {
        throw fields.wrong("quietHours", "It must be \"off\", or hours such as \"22:00-08:00\".")
      }
      quietHours = choice
    }
    isDryRun = try fields.flag("dryRun") ?? false
    ignoresCaps = try fields.flag("ignoreCaps") ?? false
    holdoutPercent = try fields.integer("holdoutPercent", in: Self.holdoutRange)
    guard holdoutPercent == nil || source == .devices else {
      throw fields.wrong("holdoutPercent", "Only stored devices have holdout groups; an upload is sent as it is.")
    }
    if let seconds = expiresAfter { notification.expiration = seconds == 0 ? .notStored : .after(.seconds(seconds)) }
  }

  private mutating func readVariants(_ fields: FieldReader) throws {
    guard let value = fields["variants"] else { return }
    guard case .object(let members) = value, members.count <= Self.variantLimit else {
      throw fields.wrong("variants", "It must be an object with at most \(Self.variantLimit) languages.")
    }
    for member in members {
      let pointer = "/variants/\(member.key)"
      guard let language = LanguageTag.normalised(member.key) else {
        throw Problem.malformed("\"\(member.key)\" is no language tag, such as \"de\" or \"pt-BR\".", pointer: pointer)
      }
      guard case .object = member.value else { throw Problem.malformed("It must be a payload.", pointer: pointer) }
      guard variants.updateValue(member.value.encoded, forKey: language) == nil else {
        throw Problem.malformed("The language stands twice.", pointer: pointer)
      }
    }
  }

  private mutating func readAudience(_ fields: FieldReader) throws {
    let names = ["source", "filter", "activity", "activityType", "each"]
    guard let audience = try fields.object("audience", fields: names) else { return }
    if let text = try audience.text("source") {
      guard let source = Source(rawValue: text) else {
        throw audience.wrong("source", "It must be \"upload\" or \"devices\".")
      }
      self.source = source
    }
    if let value = audience["filter"] {
      guard source == .devices else {
        throw audience.wrong("filter", "Only devices can be filtered; an upload is sent as it is.")
      }
      filter = try AudienceFilter(value, at: audience.place("filter"))
    }
    try readActivity(audience, fields)
    filter.isOncePerUser = try audience.isOncePerUser("each")
    guard !filter.isOncePerUser || source == .devices else {
      throw audience.wrong("each", "Only stored devices have users; each row of an upload gets one.")
    }
  }

  private mutating func readActivity(_ audience: FieldReader, _ fields: FieldReader) throws {
    for (field, name) in [
      ("activity", ActivityName.shown), ("activityType", ActivityName.startable),
    ] as [(String, @Sendable (String) -> ActivityName)] {
      guard let text = try audience.text(field) else { continue }
      guard source == .devices else {
        throw audience.wrong(field, "Only stored devices have activities; an upload has their tokens itself.")
      }
      guard filter.activity == nil else {
        throw audience.wrong(field, "A campaign is for one activity, or for one type of them.")
      }
      guard ActivityRules.isName(text) else { throw audience.wrong(field, ActivityRules.nameRule) }
      filter.activity = name(text)
    }
    guard filter.activity != nil else { return }
    guard (notification.pushType ?? .liveActivity) == .liveActivity else {
      throw fields.wrong("pushType", "Live Activities have the push type liveactivity.")
    }
    notification.pushType = .liveActivity
  }

  private mutating func readStart(_ fields: FieldReader) throws {
    if let text = try fields.text("sendAt") {
      guard let instant = InstantText.instant(text) else {
        throw fields.wrong("sendAt", "It must be an instant with its offset, such as \"2027-01-31T09:00:00+01:00\".")
      }
      start = .at(instant)
    }
    guard let value = fields["localSend"] else { return }
    guard case .now = start else { throw fields.wrong("localSend", "A campaign has either sendAt or localSend.") }
    start = .local(try LocalSend(value, at: fields.place("localSend")))
  }

  /// The plan as it is stored.
  package var content: [UInt8] { JSONValue.object(members).encoded }

  /// What lists show of it.
  package var summary: CampaignSummary {
    var summary = CampaignSummary()
    summary.name = name
    summary.isForDevices = source == .devices
    summary.isDryRun = isDryRun
    switch start {
    case .now: break
    case .at(let instant): summary.beginsAt = instant
    case .local(let send): (summary.beginsAt, summary.lastBeginsAt) = (send.earliest, send.latest)
    }
    return summary
  }

  /// The same as it is sent at an instant: devices ignore what a Live Activity gets without the
  /// time of what it says.
  func timed(at instant: StoreInstant) -> CampaignPlan {
    guard notification.pushType == .liveActivity else { return self }
    var plan = self
    plan.notification.content = .json(ActivityRules.timed(notification.json, at: instant))
    plan.variants = variants.mapValues { ActivityRules.timed($0, at: instant) }
    return plan
  }

  package var isLocal: Bool { if case .local = start { true } else { false } }

  /// The columns that its payloads need.
  package var placeholders: [String] { ([notification.json] + variants.values).flatMap(PayloadPlaceholders.names) }

  /// - Throws: ``Problem`` with 422 if the app's gateway would refuse a payload of it, and with 400
  ///   if it asks for what its audience cannot have.
  ///
  /// - Parameter now: when it begins, unless it says another time.
  package func check(for app: PushApp, now: StoreInstant) throws {
    let first = max(now, summary.beginsAt ?? now)
    let plan = timed(at: first)
    try plan.check(plan.notification, "/payload", app, sentAt: first)
    for (language, payload) in plan.variants {
      var variant = plan.notification
      variant.content = .json(payload)
      try plan.check(variant, "/variants/\(language)", app, sentAt: first)
    }
  }

  private func check(
    _ notification: PushNotification, _ pointer: String, _ app: PushApp, sentAt instant: StoreInstant
  ) throws {
    if let activity = filter.activity {
      do throws(ActivityRules.Refusal) {
        try ActivityRules.check(ActivityRules.aps(notification.json), of: activity, sentAt: instant)
      } catch { throw Problem.malformed(error.sentence, pointer: "\(pointer)/aps/\(error.key)") }
    }
    let findings = app.check(notification).filter(\.isError)
    guard let first = findings.first else {
      guard source == .devices, !PayloadPlaceholders.names(in: notification.json).isEmpty else { return }
      throw Problem.malformed(
        "The payload has placeholders, but stored devices bring no values for them.", pointer: pointer)
    }
    throw Problem(
      .unprocessableContent, "Not sendable", first.message,
      errors: findings.prefix(20).map { Problem.Detail(pointer: pointer, detail: $0.description) })
  }
}

extension StoredCampaign {
  package mutating func set(_ plan: CampaignPlan) {
    content = plan.content
    head.summary = plan.summary
  }
}

package enum PayloadPlaceholders {
  /// Empty also for what is no payload.
  package static func names(in payload: [UInt8]) -> [String] { (try? PayloadTemplate(parsing: payload))?.columns ?? [] }
}
