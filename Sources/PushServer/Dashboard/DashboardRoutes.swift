internal import Carillon
internal import HTTPTypes
internal import Hummingbird
internal import PushService
internal import PushStore

/// The pages for people, at `/`: without a build step and without anything from elsewhere.
struct DashboardRoutes: Sendable {
  let dashboard: Dashboard

  func add(to router: Router<ControlContext>) {
    DashboardAssets.add(to: router)
    router.get("/") { request, context in
      await page(request) { viewer in
        let parameters = request.uri.queryParameters
        return try await dashboard.overview(
          viewer, named: parameters["name"].map(String.init) ?? "",
          by: parameters["sort"].flatMap { AppOrder(rawValue: String($0)) })
      }
    }
    router.get("login") { request, _ in
      guard dashboard.check.knows(host: request.head.authority) else { return Self.unknownHost(request) }
      return dashboard.login(request)
    }
    router.post("login") { request, context in
      await post(request, isLogin: true) { try await dashboard.logIn($0, request, context.trail) }
    }
    router.post("logout") { request, _ in
      await form(request) { _, _ in try await dashboard.logOut(request) }
    }
    router.get("apps/{app}") { request, context in
      await page(request) { viewer in
        let parameters = request.uri.queryParameters
        return try await dashboard.app(
          context.parameter("app"), viewer, sent: parameters["sent"], span: parameters["span"])
      }
    }
    router.get("apps/{app}/devices") { request, context in
      await page(request) { viewer in try await dashboard.devices(of: context.parameter("app"), viewer) }
    }
    for (action, isPause) in [("pause", true), ("resume", false)] {
      router.post(RouterPath("apps/{app}/\(action)")) { request, context in
        await form(request) { _, viewer in
          try await dashboard.setPaused(isPause, context.parameter("app"), viewer)
        }
      }
    }
    router.post("apps/{app}/test") { request, context in
      await form(request) { form, viewer in try await dashboard.sendTest(form, context.parameter("app"), viewer) }
    }
    addCampaigns(to: router)
    addNodes(to: router)
    router.get("events") { request, _ in
      await page(request) { viewer in
        let parameters = request.uri.queryParameters
        return try await dashboard.events(viewer, app: parameters["app"], cursor: parameters.identifierCursor())
      }
    }
    router.get("keys") { request, _ in
      await page(request) { viewer in try await dashboard.keys(viewer) }
    }
    router.post("keys") { request, context in
      await form(request) { form, viewer in try await dashboard.createKey(form, viewer, context.trail).response() }
    }
    router.post("keys/{id}/revoke") { request, context in
      await form(request) { _, viewer in try await dashboard.revokeKey(context.parameter("id"), viewer) }
    }
  }

  private func addNodes(to router: Router<ControlContext>) {
    router.get("nodes") { request, _ in
      await page(request) { viewer in try await dashboard.nodes(viewer) }
    }
    for (action, isDraining) in [("drain", true), ("resume", false)] {
      router.post(RouterPath("nodes/{node}/\(action)")) { request, context in
        await form(request) { _, viewer in
          try await dashboard.setDraining(isDraining, context.parameter("node"), viewer)
        }
      }
    }
    router.post("nodes/{node}/forget") { request, context in
      await form(request) { _, viewer in try await dashboard.forget(node: context.parameter("node"), viewer) }
    }
  }

  private func addCampaigns(to router: Router<ControlContext>) {
    router.get("campaigns") { request, _ in
      await page(request) { viewer in try await dashboard.campaigns(viewer) }
    }
    router.get("apps/{app}/campaigns/{id}") { request, context in
      await page(request) { viewer in
        try await dashboard.campaign(context.parameter("id"), of: context.parameter("app"), viewer)
      }
    }
    router.get("apps/{app}/campaigns/{id}/not-accepted.csv") { request, context in
      await answer(request) { viewer in
        try await dashboard.notAccepted(context.parameter("id"), of: context.parameter("app"), viewer)
      }
    }
    router.post("apps/{app}/campaigns/{id}/duplicate") { request, context in
      await form(request) { _, viewer in
        try await dashboard.duplicate(context.parameter("id"), of: context.parameter("app"), viewer)
      }
    }
    for action in ["start", "pause", "resume", "cancel"] {
      router.post(RouterPath("apps/{app}/campaigns/{id}/\(action)")) { request, context in
        await form(request) { _, viewer in
          try await dashboard.act(action, on: context.parameter("id"), of: context.parameter("app"), viewer)
        }
      }
    }
  }

  /// Serves a page to users who are logged in; others get the login page.
  private func page(_ request: Request, _ serve: (Page.Viewer) async throws -> Page) async -> Response {
    await answer(request) { try await serve($0).response() }
  }

  private func answer(_ request: Request, _ serve: (Page.Viewer) async throws -> Response) async -> Response {
    guard dashboard.check.knows(host: request.head.authority) else { return Self.unknownHost(request) }
    do {
      guard let viewer = try await dashboard.viewer(request) else { return Page.redirect("/login") }
      return await answer(viewer) { try await serve(viewer) }
    } catch {
      return Self.response(Problem(describing: error))
    }
  }

  /// Takes a form of a user who is logged in.
  private func form(_ request: Request, _ serve: (FormBody, Page.Viewer) async throws -> Response) async -> Response {
    await post(request) { try await serve($0, dashboard.viewer(request, $0)) }
  }

  /// Takes a form, if a page of the service has sent it.
  ///
  /// - Parameter isLogin: its sender need not be logged in. Others are refused before their body.
  private func post(
    _ request: Request, isLogin: Bool = false, _ serve: (FormBody) async throws -> Response
  ) async -> Response {
    guard dashboard.check.knows(host: request.head.authority) else { return Self.unknownHost(request) }
    guard
      dashboard.check.isOwn(
        origin: request.headers[.origin], fetchSite: Self.fetchSite.flatMap { request.headers[$0] },
        host: request.head.authority)
    else {
      return Self.response(
        Problem(
          .forbidden, "Not from here", "The form was not sent by a page of this service.",
          action: "Behind a proxy, let it pass on the header Host as the browser sent it."))
    }
    let viewer = try? await dashboard.viewer(request)
    return await answer(viewer) {
      guard viewer != nil || isLogin else { throw Dashboard.loggedOut }
      let body = try await dashboard.access.body(of: request, by: nil, limit: FormBody.byteCountLimit)
      guard let form = FormBody(parsing: body) else { throw Problem.malformed("The form is malformed.") }
      return try await serve(form)
    }
  }

  private func answer(_ viewer: Page.Viewer?, _ serve: () async throws -> Response) async -> Response {
    do { return try await serve() } catch {
      return Self.response(Problem(describing: error), viewer)
    }
  }

  private static let fetchSite = HTTPField.Name("Sec-Fetch-Site")

  private static func unknownHost(_ request: Request) -> Response {
    response(
      Problem(
        .misdirectedRequest, "Unknown host",
        "The host name \"\(request.head.authority ?? "")\" is not configured.",
        action: "Use its address, or add the name to \"hosts\" of \"api\" in the configuration."))
  }

  /// Why a page is not shown.
  private static func response(_ problem: Problem, _ viewer: Page.Viewer? = nil) -> Response {
    Page(
      title: problem.title, viewer: viewer,
      body: """
        <h1>\(problem.title)</h1>
        <p class="error">\(problem.detail)</p>
        \(problem.action.map { "<p>\($0)</p>" } ?? HTML.empty)
        <p><a href="/">To the overview</a></p>
        """
    ).response(problem.status)
  }
}

extension ControlContext {
  fileprivate func parameter(_ name: String) -> String { parameters.get(name) ?? "" }
}
