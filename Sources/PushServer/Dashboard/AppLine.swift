internal import Carillon
internal import PushEngine
internal import PushService
internal import PushWire

/// An app in the list.
struct AppLine: Sendable {
  let app: PushApp
  let status: AppStatusSnapshot
  /// Of all nodes together.
  let figures: NodeStatus.Figures

  /// Of single notifications, or for so long a campaign has stood still.
  var oldestAge: Duration { max(status.oldestAge, status.campaignStall) }
}

/// What the list of apps can be sorted by.
enum AppOrder: String, CaseIterable, Sendable {
  case app, state, rate, accepted, rejected, pending, oldest, connections

  var title: String {
    switch self {
    case .rejected: "Not accepted"
    default: rawValue.prefix(1).uppercased() + rawValue.dropFirst()
    }
  }

  var isNumber: Bool { self != .app && self != .state }

  /// The largest number first; equal ones by their names.
  func precedes(_ first: AppLine, _ second: AppLine) -> Bool {
    let (one, other) = (number(first), number(second))
    return one == other ? first.app.id < second.app.id : one > other
  }

  private func number(_ line: AppLine) -> Double {
    switch self {
    case .app: 0
    // The worst first.
    case .state: -Double(StateBadge.words.firstIndex(of: StateBadge.word(line.status)) ?? 0)
    case .rate: line.figures[.rate]
    case .accepted: line.figures[.accepted]
    case .rejected: line.figures[.others]
    case .pending: line.figures[.pending]
    case .oldest: line.status.oldestAge / .seconds(1)
    case .connections: line.figures[.connections]
    }
  }
}
