internal import Carillon
internal import Foundation
internal import Hummingbird
internal import PushService
internal import PushWire
internal import Synchronization

/// The broadcast channels of an app. The gateway's service has them: each request asks it.
struct ChannelRoutes: Sendable {
  let access: ControlAccess
  let limit = ChannelRequestLimit()

  private static let fields = ["store"]

  func add(to router: Router<ControlContext>) {
    let app = router.group("v1/apps/{app}")
    app.post("channels", use: postChannel)
    app.get("channels", use: getChannels)
    app.get("channels/{channel}", use: getChannel)
    app.delete("channels/{channel}", use: deleteChannel)
  }

  private func postChannel(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .send)
    try request.bodyType([.json])
    let bytes = try await access.body(of: request, context, under: grant)
    let fields = try FieldReader(parsing: bytes[...], fields: Self.fields)
    var storage = ChannelService.Storage.last
    if let name = try fields.text("store") {
      guard let known = ChannelService.Storage(rawValue: name) else {
        throw fields.wrong("store", "A channel stores the \"last\" broadcast or \"none\".")
      }
      storage = known
    }
    let channel = try await ask(app, context) { [storage] service throws(ChannelFailure) in
      try await service.create(storing: storage)
    }
    context.trail?.add("channel", channel)
    return Self.response(.created, channel, storage)
  }

  private func getChannels(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .send, or: .read)
    let channels = try await ask(app, context) { service throws(ChannelFailure) in try await service.list() }
    return .json { $0.field("items", channels) }
  }

  private func getChannel(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .send, or: .read)
    let channel = try Self.channel(context)
    let storage = try await ask(app, context) { service throws(ChannelFailure) in try await service.storage(of: channel)
    }
    return Self.response(.ok, channel, storage)
  }

  private func deleteChannel(_ request: Request, _ context: ControlContext) async throws -> Response {
    let app = try await access.app(request, context, .send)
    let channel = try Self.channel(context)
    try await ask(app, context) { service throws(ChannelFailure) in try await service.delete(channel) }
    return Response(status: .noContent)
  }

  private static func response(
    _ status: HTTPResponse.Status, _ channel: String, _ storage: ChannelService.Storage
  ) -> Response {
    .json(status) { json in
      json.field("channel", channel)
      json.field("store", storage.rawValue)
    }
  }

  /// An identifier may have `/` and `+`, which are encoded in an address.
  private static func channel(_ context: ControlContext) throws -> String {
    let text = context.parameters.get("channel") ?? ""
    guard let channel = text.removingPercentEncoding, !channel.isEmpty,
      channel.utf8.count <= NotificationRequest.channelLimit, channel.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
    else { throw Problem.missing("channel \(text.cited)") }
    return channel
  }

  /// - Throws: ``Problem``: 404 for a channel that the app does not have, 409 if it can have
  ///   none, or no more, 429 when too many ask, 502 for another refusal, and 503 if nobody answers.
  private func ask<Answer>(
    _ app: PushApp, _ context: ControlContext, _ question: (ChannelService) async throws(ChannelFailure) -> Answer
  ) async throws -> Answer {
    let turn = try limit.begin(app.id)
    defer { withExtendedLifetime(turn) {} }
    let service: ChannelService
    do throws(CarillonError) { service = try await app.channels() } catch {
      guard error.code == .configuration else { throw error }
      throw Problem(
        .conflict, "No channels", error.message, action: "Change the app's configuration; a reload adopts it.")
    }
    do throws(ChannelFailure) { return try await question(service) } catch {
      switch error.reason {
      case .channelNotRegistered, .badChannelIdentifier:
        throw context.missing("channel", of: app, parameter: "channel")
      case .cannotCreateChannel, .featureNotEnabled:
        throw Problem(
          .conflict, "No channel", error.error.message, action: "Do what the sentence says, and ask again.")
      default:
        guard error.error.code == .refused else {
          var problem = Problem.unavailable(error.error.message, retryAfter: 10)
          // Its answer may have been lost.
          problem.isDoubtful = true
          throw problem
        }
        throw Problem(
          .badGateway, "Refused", error.error.message, action: "Correct the app's credential or topic, and ask again.")
      }
    }
  }
}

/// How many requests about the channels of an app may be under way.
final class ChannelRequestLimit: Sendable {
  private static let perApp = 4

  private let counts = Mutex<[String: Int]>([:])

  /// Ends with the last reference.
  final class Turn: Sendable {
    private let limit: ChannelRequestLimit
    private let app: String

    fileprivate init(_ limit: ChannelRequestLimit, _ app: String) { (self.limit, self.app) = (limit, app) }

    deinit {
      limit.counts.withLock { counts in
        let left = (counts[app] ?? 0) - 1
        counts[app] = left > 0 ? left : nil
      }
    }
  }

  /// - Throws: ``Problem`` with 429.
  func begin(_ app: String) throws -> Turn {
    let isBegun = counts.withLock { counts in
      guard counts[app, default: 0] < Self.perApp else { return false }
      counts[app, default: 0] += 1
      return true
    }
    guard isBegun else {
      throw Problem(
        .tooManyRequests, "Too many requests", "\(Self.perApp) requests about this app's channels are under way.",
        action: "Ask about one after the other.", retryAfter: 1)
    }
    return Turn(self, app)
  }
}
