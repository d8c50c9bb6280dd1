internal import Carillon
internal import PushService
internal import PushWire

/// What the bridge does for an app's clients, on the app's page.
extension Dashboard {
  /// Empty if the service has no bridge.
  func bridgePart(_ id: String) -> HTML {
    guard let bridge else { return .empty }
    let counts = bridge.counts[id] ?? BridgeCounts()
    guard counts != BridgeCounts() else {
      return """
        <section id="bridge" data-live class="card"><h2>Bridge</h2>
        <p class="empty">No client of the binary protocol has connected since the start.</p></section>
        """
    }
    func fact(_ title: String, _ count: Int) -> HTML { "<dt>\(title)</dt><dd>\(NumberText.grouped(count))</dd>" }
    return """
      <section id="bridge" data-live class="card"><h2>Bridge</h2>
      <dl>
      \(fact("Clients connected", counts.clients))
      \(fact("Frames in", counts.frames))
      \(fact("Forwarded", counts.forwarded))
      \(fact("Already delivered", counts.alreadyDelivered))
      \(counts.lastAlreadyDelivered.map { "<dt>The last of them</dt><dd>\(zone(id).time($0))</dd>" } ?? .empty)
      \(fact("Feedback handed out", counts.feedback))
      </dl>
      \(responses(counts))
      </section>
      """
  }

  private func responses(_ counts: BridgeCounts) -> HTML {
    var lines = counts.responses.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { status, count in
      ("\(status)", GatewayStatus(rawValue: status).meaning, count)
    }
    if counts.silentCloses > 0 { lines.append(("–", "closed without a response (command 0)", counts.silentCloses)) }
    guard !lines.isEmpty else { return .empty }
    let rows = lines.map { status, meaning, count -> HTML in
      "<tr><td>\(status)</td><td>\(meaning)</td><td class=\"number\">\(NumberText.grouped(count))</td></tr>"
    }
    return "<h3>Errors answered</h3><table class=\"narrow\"><tbody>\(rows)</tbody></table>"
  }
}
