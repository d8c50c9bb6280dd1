internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushServer
internal import PushWire

struct CampaignCreateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "create", abstract: "Makes a campaign, uploads its audience, and starts it if asked.",
    discussion: "Prints the campaign's id on standard output.")

  @OptionGroup var service: ServiceOptions
  @Option(help: "The app's id.") var app: String
  @Option(help: "What people call it.") var name: String
  @Option(help: .init("The payload, as JSON; placeholders as for carillon send.", valueName: "file"))
  var payload: String
  @Option(help: .init("A payload for a language, such as de=de.json. May be repeated.", valueName: "lang=file"))
  var variant: [String] = []
  @Option(help: .init("The audience: CSV, one token per line, or NDJSON; - for standard input.", valueName: "file"))
  var tokens: String?
  @Flag(help: "The audience is the app's stored devices (instead of --tokens).") var devices = false
  @Option(help: .init("Only devices with this tag. May be repeated: with all of them.", valueName: "tag"))
  var all: [String] = []
  @Option(help: .init("Only devices with one of these tags. May be repeated.", valueName: "tag"))
  var any: [String] = []
  @Option(help: .init("Only devices without this tag. May be repeated.", valueName: "tag"))
  var none: [String] = []
  @Option(help: .init("Only devices of this language. May be repeated.", valueName: "lang"))
  var language: [String] = []
  @Flag(help: "Each user gets it once, on the newest of those devices.") var oncePerUser = false
  @Option(help: .init("Only devices that show this Live Activity, which is updated or ended.", valueName: "name"))
  var activity: String?
  @Option(help: .init("Only devices on which a Live Activity of this type can be started.", valueName: "type"))
  var activityType: String?
  @Option(help: .init("When it begins, with offset, such as 2027-01-31T09:00:00+01:00.", valueName: "time"))
  var sendAt: String?
  @Option(help: .init("The wall-clock time at which each device gets it, such as 2027-01-31T09:00.", valueName: "time"))
  var localTime: String?
  @Option(help: .init("Devices without a time zone: appDefault (the default) or skip.", valueName: "rule"))
  var missingTimeZone: String?
  @Option(help: .init("Where the local time has passed: now (the default) or skip.", valueName: "rule"))
  var past: String?
  @Option(help: .init("The most notifications, such as 5000/s (default: what the app may).", valueName: "rate"))
  var rateLimit: String?
  @Option(help: .init("How long it is worth delivering, such as 24h; 0: not stored.", valueName: "duration"))
  var expiresAfter: String?
  @Option(help: .init("Nothing is sent in these hours, such as 22:00-08:00, or off.", valueName: "hours"))
  var quietHours: String?
  @Option(help: .init("So many per cent of the users do not get it, to compare with them.", valueName: "percent"))
  var holdout: Int?
  @Flag(help: "Users get it even if the app's caps are reached.") var ignoreCaps = false
  @Flag(help: "Count the audience and check the payloads; send nothing.") var dryRun = false
  @Flag(help: "Start it.") var start = false
  @Flag(help: "Show its progress until it ends.") var watch = false

  func validate() throws {
    guard (tokens == nil) == devices else { throw ValidationError("Name the audience by --tokens FILE or --devices.") }
    let isFiltered = !(all + any + none + language).isEmpty
    if isFiltered, !devices { throw ValidationError("--all, --any, --none and --language need --devices.") }
    if oncePerUser || activity != nil || activityType != nil, !devices {
      throw ValidationError("--once-per-user, --activity and --activity-type need --devices.")
    }
    if holdout != nil || ignoreCaps, !devices { throw ValidationError("--holdout and --ignore-caps need --devices.") }
    guard sendAt == nil || localTime == nil else { throw ValidationError("Use --send-at or --local-time, not both.") }
    if localTime == nil, missingTimeZone != nil || past != nil {
      throw ValidationError("--missing-time-zone and --past need --local-time.")
    }
    if watch, !start { throw ValidationError("--watch needs --start.") }
  }

  func run() async throws {
    if let tokens { try Self.checkBeginning(of: tokens) }
    let client = try service.client()
    let request = String(decoding: try description().encoded, as: UTF8.self)
    let path = "/v1/apps/\(app.asPathSegment)/campaigns"
    let made: ServiceCampaign
    do { made = try await client.send(.post(path, json: request)).decoded(ServiceCampaign.self) } catch let failure
      as ServiceFailure
    {
      throw flagFailure(failure)
    }
    StandardStream.output.writeLine(made.id)
    let campaign = CampaignCommand.path(app, made.id)
    if let tokens {
      let upload = try await UploadDisplay.during(tokens) { sent in
        try await client.send(.upload("\(campaign)/audience", file: tokens, type: "text/plain", sent: sent))
          .decoded(ServiceCampaign.Upload.self)
      }
      StandardStream.error.writeLine("uploaded \(NumberText.count(upload.lines, "line"))")
    }
    guard start else { return }
    let started = try await client.send(.post("\(campaign):start")).decoded(ServiceCampaign.self)
    StandardStream.error.writeLine("started; \(started.standing)")
    if watch { try await CampaignWatchCommand.watch(client, campaign) }
  }

  /// The service refuses such a file too, but would have the campaign by then. What is no file can
  /// be read only once.
  private static func checkBeginning(of path: String) throws {
    let target = URL(filePath: path).resolvingSymlinksInPath().path(percentEncoded: false)
    let attributes = try? FileManager.default.attributesOfItem(atPath: target)
    guard attributes?[.type] as? FileAttributeType == .typeRegular else { return }
    if let head = try UploadedFile(path).next(), AudienceHeader.isJSON(head) == true { return }
    _ = try AudienceFile(path: path)
  }

  /// What the service says of a field that a flag has set, as a sentence about the flag.
  private func flagFailure(_ failure: ServiceFailure) -> any Error {
    let values = [
      "/name": ("--name", name), "/payload": ("--payload", payload), "/sendAt": ("--send-at", sendAt),
      "/localSend/time": ("--local-time", localTime), "/localSend/past": ("--past", past),
      "/localSend/missingTimeZone": ("--missing-time-zone", missingTimeZone), "/rateLimit": ("--rate-limit", rateLimit),
      "/expiresAfter": ("--expires-after", expiresAfter), "/quietHours": ("--quiet-hours", quietHours),
      "/audience/activity": ("--activity", activity), "/audience/activityType": ("--activity-type", activityType),
      "/holdoutPercent": ("--holdout", holdout.map(String.init)),
    ]
    guard let field = failure.field, let (flag, value) = values[field.pointer], let value else { return failure }
    return CommandFailure.usage("\(flag) \(value.cited): \(field.detail)")
  }

  /// The request that makes the campaign.
  private func description() throws -> JSONValue {
    var members = [
      JSONMember("name", .string(name)), JSONMember("payload", try Self.json(try Self.read(payload), payload)),
    ]
    let variants = try variant.map { entry in
      let parts = entry.split(separator: "=", maxSplits: 1).map(String.init)
      guard parts.count == 2 else {
        throw CommandFailure.usage("--variant must be a language and a file, as in de=de.json, not \"\(entry)\"")
      }
      return (language: parts[0], payload: try Self.read(parts[1]), file: parts[1])
    }
    if !variants.isEmpty {
      let payloads = try variants.map { JSONMember($0.language, try Self.json($0.payload, $0.file)) }
      members.append(JSONMember("variants", .object(payloads)))
    }
    func member(_ name: String, _ text: String?) -> [JSONMember] { text.map { [JSONMember(name, .string($0))] } ?? [] }
    if devices {
      let filter = [("all", all), ("any", any), ("none", none), ("languages", language)].filter { !$0.1.isEmpty }
        .map { JSONMember($0, .array($1.map { .string($0) })) }
      let audience =
        [JSONMember("source", .string("devices")), JSONMember("filter", .object(filter))]
        + member("activity", activity) + member("activityType", activityType)
        + member("each", oncePerUser ? "user" : nil)
      members.append(JSONMember("audience", .object(audience)))
    }
    members += member("sendAt", sendAt)
    if localTime != nil {
      let rules = member("time", localTime) + member("missingTimeZone", missingTimeZone) + member("past", past)
      members.append(JSONMember("localSend", .object(rules)))
    }
    if let rateLimit {
      let rate = try Options.rate(rateLimit, flag: "--rate-limit")
      guard rate >= 1 else { throw ValidationError("--rate-limit must be at least 1/s, not \(rateLimit.cited).") }
      members.append(JSONMember("rateLimit", .integer(Int(rate))))
    }
    if let expiresAfter {
      let seconds = expiresAfter == "0" ? 0 : Quantity.duration(expiresAfter).map { Int($0.components.seconds) }
      guard let seconds else {
        throw CommandFailure.usage("--expires-after must be a duration such as 24h, or 0, not \"\(expiresAfter)\"")
      }
      members.append(JSONMember("expiresAfter", .integer(seconds)))
    }
    members += member("quietHours", quietHours)
    if let holdout { members.append(JSONMember("holdoutPercent", .integer(holdout))) }
    if ignoreCaps { members.append(JSONMember("ignoreCaps", .bool(true))) }
    if dryRun { members.append(JSONMember("dryRun", .bool(true))) }
    return .object(members)
  }

  private static func json(_ bytes: [UInt8], _ file: String) throws -> JSONValue {
    do throws(JSONError) { return try JSONValue(parsing: bytes[...]) } catch {
      throw ServiceFailure("\(file) is not JSON: \(error.description(in: bytes)).")
    }
  }

  private static let payloadByteLimit = 1 << 20

  private static func read(_ file: String) throws -> [UInt8] {
    Array(try TextFile.read(file, byteLimit: payloadByteLimit))
  }
}
