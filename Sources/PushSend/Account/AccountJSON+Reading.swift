package import Carillon
internal import Foundation

extension AccountJSON {
  /// A whole account, as ``text(_:)`` writes it.
  package struct File: Decodable, Sendable {
    package var apps: [String: App]
    package var seconds: Double

    package var snapshot: AccountSnapshot {
      let shown = apps.sorted { $0.key < $1.key }.map { id, app in
        var shown = AccountSnapshot.App(id: id, account: app.account)
        shown.notes = app.notes
        return shown
      }
      return AccountSnapshot(apps: shown, seconds: seconds)
    }
  }

  package struct App: Decodable, Sendable {
    package var account: CampaignAccount
    package var notes: [String]

    private struct Accepted: Decodable {
      var confirmed: Int
      var quiet: Int
    }

    private struct Rejected: Decodable {
      var byReason: [String: Int]
    }

    private enum Key: String, CodingKey {
      case submitted, accepted, rejected, suppressed, capped, holdout, expired, held, cancelled, unknown
      case resent, possibleDuplicates, possibleCopies, notes
    }

    package init(from decoder: any Decoder) throws {
      let values = try decoder.container(keyedBy: Key.self)
      let accepted = try values.decode(Accepted.self, forKey: .accepted)
      func count(_ key: Key) throws -> Int { try values.decode(Int.self, forKey: key) }
      account = CampaignAccount()
      account.submitted = try count(.submitted)
      account.confirmed = accepted.confirmed
      account.quiet = accepted.quiet
      account.rejectedByReason = try values.decode(Rejected.self, forKey: .rejected).byReason
      account.suppressed = try count(.suppressed)
      // Older accounts do not have them.
      account.capped = try values.decodeIfPresent(Int.self, forKey: .capped) ?? 0
      account.holdout = try values.decodeIfPresent(Int.self, forKey: .holdout) ?? 0
      account.expired = try count(.expired)
      account.held = try count(.held)
      account.cancelled = try count(.cancelled)
      account.unknown = try count(.unknown)
      account.resent = try count(.resent)
      account.possibleDuplicates = try count(.possibleDuplicates)
      account.possibleCopies = try count(.possibleCopies)
      notes = try values.decode([String].self, forKey: .notes)
    }
  }

  /// Nil for what is not the account of one app.
  package static func account(reading bytes: [UInt8]) -> CampaignAccount? {
    (try? JSONDecoder().decode(App.self, from: Data(bytes)))?.account
  }

  /// Nil for what is not an account.
  package static func file(reading bytes: [UInt8]) -> File? { try? JSONDecoder().decode(File.self, from: Data(bytes)) }
}
