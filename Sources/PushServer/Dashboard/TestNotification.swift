internal import Carillon
internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushWire

/// A notification to one device, to see that everything works.
extension Dashboard {
  func testForm(_ app: PushApp, _ viewer: Page.Viewer, _ result: HTML) -> HTML {
    """
    <section id="test" class="card"><h2>Test notification</h2>
    \(result)
    <form method="post" action="/apps/\(app.id.asPathSegment)/test">
    \(Page.token(viewer))
    <label for="token">Device token</label>
    <input id="token" name="token" required pattern="[0-9a-fA-F]+" maxlength="200" spellcheck="false"
      autocomplete="off" placeholder="64 hexadecimal digits">
    <label for="title">Title</label>
    <input id="title" name="title" maxlength="200" autocomplete="off">
    <label for="message">Message</label>
    <input id="message" name="message" maxlength="1000" required value="Hello from Carillon">
    <button>Send</button>
    </form>
    </section>
    """
  }

  func sendTest(_ form: FormBody, _ id: String, _ viewer: Page.Viewer) async throws -> Response {
    let app = try visibleApp(id, viewer)
    try demand(.send, of: viewer)
    try intake.demandRoom(app)
    let token: DeviceToken
    do throws(CarillonError) { token = try DeviceToken(hex: form["token"].filter { !$0.isWhitespace }) } catch {
      throw Problem(.unprocessableContent, "Not a device token", error.message)
    }
    let json = JSONWriter.text { json in
      json.object("aps") { json in
        json.object("alert") { json in
          if !form["title"].isEmpty { json.field("title", form["title"]) }
          json.field("body", form["message"])
        }
      }
    }
    let ids = try await app.submit([(PushNotification(json: Array(json.utf8)), token)])
    guard let sent = ids.first else { throw Problem.unavailable("The notification was not accepted.") }
    return Page.redirect("/apps/\(id.asPathSegment)?sent=\(sent)#test")
  }

  /// What became of it, or that it is not known yet.
  func testResult(_ id: NotificationID, _ app: PushApp) async throws -> HTML {
    let stored = StoredNotificationID(id)
    let pending = outcomes.app(of: stored)
    let outcome = try await store.notification(stored).outcome
    guard let owner = outcome?.app ?? pending, owner == app.id else { return .empty }
    guard let outcome else {
      return """
        <p id="result" data-live data-state="queued" role="status">Taken in as <code>\("\(id)")</code>; no outcome
        yet. <a href="/apps/\(app.id.asPathSegment)?sent=\("\(id)")#test">Look again</a></p>
        """
    }
    let isGood = outcome.state == "accepted"
    return """
      <p id="result" data-live data-state="\(outcome.state)" class="\(isGood ? "good" : "error")" role="status">
      The notification <code>\("\(id)")</code> was \(outcome.state)\
      \(HTML.when(!outcome.detail.isEmpty, ": \(outcome.detail)")).</p>
      """
  }
}
