internal import PushService
internal import PushWire

/// A delivery without outcomes, to see whether a receiver acknowledges it.
package struct WebhookTrial: Sendable {
  package var status: UInt = 0
  /// Why it was not acknowledged, as the rest of a sentence that begins with the receiver; nil: it
  /// was.
  package var failure: String?
  package var duration: Duration

  package static func run(_ webhook: Webhook, app: String) async -> WebhookTrial {
    let clock = MachineClock()
    let receiver = WebhookReceiver(webhook, clock: clock)
    defer { receiver.close() }
    let begin = clock.uptime
    do throws(WebhookFailure) {
      let status = try await receiver.deliver(OutcomeFeed.Page(last: 0), of: app)
      return WebhookTrial(status: status, duration: clock.uptime.since(begin))
    } catch {
      return WebhookTrial(failure: error.reason, duration: clock.uptime.since(begin))
    }
  }
}
