internal import Foundation
internal import PushEngine
internal import PushTransport

/// What the journal keeps for `carillon send --resume`: everything about one campaign that was said
/// by flags and files when it began. No secrets, only the paths to them.
struct CampaignContext: Codable, Sendable {
  /// The version of this format.
  var version = 2
  /// The app's settings, with absolute paths.
  var settings: AppSettings
  /// The account names the app by its certificate's topic.
  var isNamedByTopic: Bool
  var payloadFile: String
  var payload: FileFingerprint
  var tokensFile: String
  var tokens: FileFingerprint
  /// As the user named it, for the account and the list of outcomes.
  var tokensName: String
  /// Where to list what was not accepted.
  var outcomes: String?
  /// Where to list whose devices are gone.
  var gone: String?
  /// Seconds since 1970.
  var begunAt: UInt32

  var encoded: [UInt8] {
    get throws {
      let encoder = JSONEncoder()
      encoder.outputFormatting = .sortedKeys
      return try Array(encoder.encode(self))
    }
  }

  /// - Parameter directory: the journal's, for messages.
  static func read(_ bytes: [UInt8], directory: String) throws -> CampaignContext {
    do {
      return try JSONDecoder().decode(CampaignContext.self, from: Data(bytes))
    } catch {
      throw CarillonError(
        .journal,
        "The journal \(directory) holds a campaign that another version of carillon began: resume it with that version."
      )
    }
  }

  static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }
}

extension AppSettings {
  /// With paths that mean the same wherever the command is started from.
  var withAbsolutePaths: AppSettings {
    var settings = self
    settings.credential = credential.mapPaths(CampaignContext.absolute)
    settings.trust = trust.map(CampaignContext.absolute)
    return settings
  }
}
