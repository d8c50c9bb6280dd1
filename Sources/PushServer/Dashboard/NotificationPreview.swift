internal import PushService
internal import PushWire

/// What a phone shows of a notification, about.
struct NotificationPreview {
  private var title = ""
  private var subtitle = ""
  private var text = ""
  /// Sound, badge, and what else is not seen.
  private var notes: [String] = []

  /// - Parameter payload: JSON.
  init(payload: [UInt8]) {
    guard case .object(let members)? = try? JSONValue(parsing: payload[...]),
      case .object(let aps)? = members.value("aps")
    else {
      notes = ["it has no aps"]
      return
    }
    switch aps.value("alert") {
    case .string(let alert)?: text = alert
    case .object(let alert)?:
      (title, subtitle, text) = (alert.text("title"), alert.text("subtitle"), alert.text("body"))
      // The app has the texts under these keys.
      for (name, key) in [("title", "title-loc-key"), ("text", "loc-key")] where !alert.text(key).isEmpty {
        notes.append("\(name): \(alert.text(key))")
      }
    default: notes.append("shows nothing")
    }
    for name in ["sound", "badge"] {
      switch aps.value(name) {
      case .string(let value)?: notes.append("\(name) \(value)")
      case .number(let value)?: notes.append("\(name) \(value)")
      case .object?: notes.append(name)
      default: break
      }
    }
  }

  /// - Parameters:
  ///   - app: whose notification it is.
  ///   - whom: who gets it.
  func html(app: String, for whom: String) -> HTML {
    """
    <figure class="phone"><div>
    <p class="hint">\(app)</p>
    \(HTML.when(!title.isEmpty, "<strong>\(title)</strong>"))
    \(HTML.when(!subtitle.isEmpty, "<em>\(subtitle)</em>"))
    \(HTML.when(!text.isEmpty, "<p>\(text)</p>"))
    \(HTML.when(!notes.isEmpty, "<p class=\"hint\">\(notes.joined(separator: " · "))</p>"))
    </div><figcaption>\(whom)</figcaption></figure>
    """
  }
}

extension [JSONMember] {
  fileprivate func value(_ key: String) -> JSONValue? { first { $0.key == key }?.value }

  fileprivate func text(_ key: String) -> String {
    if case .string(let text)? = value(key) { text } else { "" }
  }
}
