internal import Foundation
package import PushStore

/// What a process shows of itself at other nodes. Its beats carry it.
package struct NodeStatus: Codable, Hashable, Sendable {
  /// A number of an app that nodes add up.
  package enum Figure: String, Sendable {
    /// Outcomes in a second, over the last minute.
    case rate
    case pending, queued, queuedBytes, connections
    /// Outcomes since the process began.
    case accepted, others
    /// Within the last day.
    case acceptedOfDay
    /// Within the last ten minutes.
    case acceptedLately, othersLately
  }

  /// Of one app. Those that are missing are 0.
  package struct Figures: Hashable, Sendable {
    private var values: [String: Double] = [:]

    package init() {}

    package subscript(_ figure: Figure) -> Double {
      get { values[figure.rawValue] ?? 0 }
      set { values[figure.rawValue] = newValue == 0 ? nil : newValue }
    }

    package func count(_ figure: Figure) -> Int { Int(exactly: self[figure].rounded()) ?? 0 }
    package var isEmpty: Bool { values.isEmpty }

    package static func + (one: Figures, other: Figures) -> Figures {
      var sum = one
      sum.values.merge(other.values, uniquingKeysWith: +)
      return sum
    }
  }

  /// Of one campaign.
  package struct Campaign: Codable, Hashable, Sendable {
    /// Outcomes in a second, over the last minute; 0: not known.
    package var pace = 0.0
    /// Why quiet hours hold parts of it back, and until when, in milliseconds since 1970.
    package var reason: String?
    package var until: Int64?

    package init(pace: Double) { self.pace = pace }
  }

  private var apps: [String: Figures] = [:]
  private var campaigns: [String: Campaign] = [:]

  /// A beat is a row that is written every two seconds.
  private static let appLimit = 250
  private static let campaignLimit = 100

  init() {}

  /// Of so many that not all have room, those with the most.
  package init(_ apps: [(id: String, figures: Figures)], _ campaigns: [(id: StoredUUID, campaign: Campaign)]) {
    let busy = apps.filter { !$0.figures.isEmpty }.sorted {
      $0.figures[.rate] + $0.figures[.pending] > $1.figures[.rate] + $1.figures[.pending]
    }
    for (id, figures) in busy.prefix(Self.appLimit) { self.apps[id] = figures }
    for (id, campaign) in campaigns.prefix(Self.campaignLimit) { self.campaigns[id.text] = campaign }
  }

  package func figures(of app: String) -> Figures { apps[app] ?? Figures() }
  package func campaign(_ id: StoredUUID) -> Campaign? { campaigns[id.text] }

  package var bytes: [UInt8] { (try? JSONEncoder().encode(self)).map { Array($0) } ?? [] }

  /// Of another version, what this one knows.
  init(reading bytes: [UInt8]) {
    self = (try? JSONDecoder().decode(NodeStatus.self, from: Data(bytes))) ?? NodeStatus()
  }
}

extension NodeStatus.Figures: Codable {
  package init(from decoder: any Decoder) throws {
    values = try decoder.singleValueContainer().decode([String: Double].self).filter { $0.value.isFinite }
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(values)
  }
}
