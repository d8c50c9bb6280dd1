internal import Carillon
internal import PushService
internal import PushStore
internal import PushWire

/// Where the notifications of a campaign are: a bar whose parts are as wide as they are many.
struct CampaignFunnel {
  private struct Part {
    let name: String
    /// The class of its colour.
    let style: String
    let count: Int
  }

  private let parts: [Part]
  /// Of all parts.
  private let total: Int

  init(_ report: CampaignReport) {
    let account = report.account
    let unread = report.total.map { max(0, $0 - account.submitted) } ?? 0
    parts = [
      Part(name: "accepted", style: "accepted", count: account.accepted),
      Part(name: "rejected", style: "others", count: account.rejected),
      Part(name: "suppressed", style: "suppressed", count: account.suppressed),
      Part(name: "capped", style: "capped", count: account.capped),
      Part(name: "holdout", style: "holdout", count: account.holdout),
      Part(
        name: "other outcomes", style: "ended",
        count: account.others - account.suppressed - account.capped - account.holdout),
      Part(name: "in flight", style: "flying", count: account.inFlight),
      Part(name: "not yet read", style: "unread", count: unread),
    ].filter { $0.count > 0 }
    total = parts.reduce(0) { $0 + $1.count }
  }

  /// Empty: nothing is known of its notifications.
  ///
  /// - Parameter words: what stands above it.
  func section(_ words: HTML) -> HTML {
    guard total > 0 else { return "<div id=\"funnel\" data-live></div>" }
    var start = 0
    let bars = parts.map { part -> HTML in
      defer { start += part.count }
      return "<rect class=\"\(part.style)\" x=\"\(start)\" width=\"\(part.count)\" height=\"1\"/>"
    }
    let texts = parts.map { part -> String in
      let share = NumberText.percent(Double(part.count) / Double(total))
      return "\(part.name) \(NumberText.grouped(part.count)) (\(share))"
    }
    let keys = zip(parts, texts).map { part, text -> HTML in "<span class=\"key \(part.style)\">\(text)</span> " }
    return """
      <section id="funnel" data-live class="card">
      <p class="amount">\(words)</p>
      <svg class="funnel" viewBox="0 0 \(total) 1" preserveAspectRatio="none" role="img"
      aria-label="\(texts.joined(separator: ", "))">\(bars)</svg>
      <p class="keys">\(Array(keys))</p>
      </section>
      """
  }
}

/// What helps when notifications are rejected, as the guide about alarms says it.
enum RejectionHint {
  static let texts = [
    "410 Unregistered": "devices have removed the app. Remove those that GET /feedback names.",
    "400 BadDeviceToken": "tokens of another environment (sandbox or production) or of another app.",
    "400 DeviceTokenNotForTopic": "the topic does not belong to the tokens.",
    "413 PayloadTooLarge": "the payload has more than 4 KiB.",
    "8 invalid token": "tokens of another environment (sandbox or production) or of another app.",
  ]
}
