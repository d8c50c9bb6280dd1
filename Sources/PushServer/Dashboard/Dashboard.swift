internal import Carillon
internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushWire
internal import Synchronization

/// What the pages show and do.
struct Dashboard: Sendable {
  let access: ControlAccess
  let store: any Store
  let outcomes: OutcomeRecorder
  let intake: IntakeLimit
  let campaigns: CampaignRunner
  let statistics: ServiceStatistics
  let reports: CampaignReports
  let bridge: Bridge?
  let alarms: AlarmWatch
  let census: DeviceCensus
  /// Of an app.
  let zone: @Sendable (String) -> PageZone
  let webhooks: WebhookStates
  let program: ProgramFacts
  var check = BrowserCheck()
  /// The service is reached by HTTPS: browsers send its cookies only so.
  var isSecure = false
  let sessions: DashboardSessions

  // MARK: Who looks

  /// The user who is logged in; nil: none.
  func viewer(_ request: Request) async throws -> Page.Viewer? {
    guard let session = try await sessions.session(of: request),
      let key = try await access.keys.key(session.keyID)
    else { return nil }
    let caller = Caller(key)
    return Page.Viewer(
      caller: caller, name: key.name, formToken: session.formToken,
      program: program, seesNodes: reports.membership.isShared && caller.seesAllApps)
  }

  /// The sender of a form.
  ///
  /// - Throws: ``Problem`` with 403 without the session's token.
  func viewer(_ request: Request, _ form: FormBody) async throws -> Page.Viewer {
    guard let viewer = try await viewer(request) else { throw Self.loggedOut }
    guard form[DashboardForm.tokenField].isSameSecret(as: viewer.formToken) else { throw Self.staleForm }
    return viewer
  }

  static let loggedOut = Problem(.forbidden, "Not logged in", "The session has ended.", action: "Log in again.")

  static let staleForm = Problem(
    .forbidden, "Form out of date", "The form does not belong to this session.",
    action: "Load the page again, and send the form from there.")

  /// - Throws: ``Problem`` with 404, also for an app that the viewer may not see.
  func visibleApp(_ id: String, _ viewer: Page.Viewer) throws -> PushApp {
    guard viewer.caller.sees(app: id), let app = try? access.deployment.app(id) else { throw Problem.notFound }
    return app
  }

  func demand(_ scope: Scope, of viewer: Page.Viewer) throws {
    guard viewer.may(scope) else {
      throw Problem(.forbidden, "Not allowed", "The key lacks the scope \"\(scope.rawValue)\".")
    }
  }

  // MARK: Login

  func login(_ request: Request, problem: String? = nil) -> Response {
    let token = request.cookies[DashboardForm.loginCookie]?.value ?? DashboardSessions.secret()
    var response = Page(title: "Log in", viewer: nil, body: LoginPage.body(formToken: token, problem: problem))
      .response(problem == nil ? .ok : .unauthorized)
    response.headers[.setCookie] = cookie(DashboardForm.loginCookie, token, lifetime: 3600)
    return response
  }

  /// - Parameter trail: gets whose login it is, and why it fails.
  func logIn(_ form: FormBody, _ request: Request, _ trail: TrailNote?) async throws -> Response {
    // The same random value in a cookie and in the form: another site can set neither.
    guard let token = request.cookies[DashboardForm.loginCookie]?.value,
      form[DashboardForm.tokenField].isSameSecret(as: token)
    else { throw Self.staleForm }
    let text = form["key"].trimmingCharacters(in: .whitespacesAndNewlines)
    trail?.isBy(APIKey(text)?.id)
    let caller: Caller
    do { caller = try await access.keys.caller("Bearer \(text)") } catch let problem as Problem {
      guard problem.status == .unauthorized else { throw problem }
      return refuse(request, "The key is unknown, or was revoked.", trail)
    }
    guard caller.may(.read) else {
      return refuse(request, "The key lacks the scope \"read\", which the dashboard needs.", trail)
    }
    let secret = try await sessions.begin(keyID: caller.keyID)
    var response = Page.redirect("/")
    response.headers[.setCookie] = cookie(DashboardForm.sessionCookie, secret, lifetime: DashboardSessions.lifetime)
    return response
  }

  private func refuse(_ request: Request, _ reason: String, _ trail: TrailNote?) -> Response {
    trail?.fails(reason)
    return login(request, problem: reason)
  }

  func logOut(_ request: Request) async throws -> Response {
    if let cookie = request.cookies[DashboardForm.sessionCookie]?.value { try await sessions.end(cookie) }
    var response = Page.redirect("/login")
    response.headers[.setCookie] = cookie(DashboardForm.sessionCookie, "", lifetime: 0)
    return response
  }

  /// - Parameter lifetime: in seconds.
  private func cookie(_ name: String, _ value: String, lifetime: Int) -> String {
    "\(name)=\(value); Path=/; Max-Age=\(lifetime); HttpOnly; SameSite=Strict"
      + (isSecure ? "; Secure" : "")
  }
}

enum DashboardForm {
  static let tokenField = "form-token"
  static let sessionCookie = "carillon_session"
  static let loginCookie = "carillon_login"
}

enum LoginPage {
  static func body(formToken: String, problem: String?) -> HTML {
    """
    <form class="card login" method="post" action="/login">
    <h1>Carillon</h1>
    \(problem.map { "<p class=\"error\" role=\"alert\">\($0)</p>" } ?? HTML.empty)
    <input type="hidden" name="\(DashboardForm.tokenField)" value="\(formToken)">
    <label for="key">Key</label>
    <input id="key" name="key" type="password" autocomplete="current-password" required autofocus
      placeholder="car_…">
    <button>Log in</button>
    <p class="hint"><code>carillon key create --scope read</code> makes a key that may look;
    with the scopes send, campaigns and admin it may also act.</p>
    </form>
    """
  }
}
