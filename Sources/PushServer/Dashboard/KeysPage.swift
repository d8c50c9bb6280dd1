internal import Carillon
internal import Hummingbird
internal import PushService
internal import PushStore

/// The keys: only for those that may do everything.
extension Dashboard {
  /// - Parameter created: a key that was just made, which is shown once.
  func keys(_ viewer: Page.Viewer, created: APIKey? = nil) async throws -> Page {
    try demand(.admin, of: viewer)
    let keys = try await visibleKeys(viewer)
    let rows = (keys.filter { $0.revokedAt == nil } + keys.filter { $0.revokedAt != nil }).map { row($0, viewer) }
    return Page(
      title: "Keys", viewer: viewer,
      body: """
        <h1>Keys</h1>
        \(created.map(shown) ?? HTML.empty)
        <table class="wide">\(Page.head("Name", "Id", "Scopes", "Apps", "Made", "Last used", ""))
        <tbody>\(rows)</tbody></table>
        \(createForm(viewer))
        """)
  }

  /// Keys for apps that the viewer sees. A key for no app is shown only to those who see all.
  private func visibleKeys(_ viewer: Page.Viewer) async throws -> [StoredKey] {
    try await store.keys().filter {
      viewer.caller.seesAllApps || $0.reach != .only([]) && viewer.caller.reach.covers($0.reach)
    }
  }

  private func shown(_ key: APIKey) -> HTML {
    """
    <section class="card good" role="status"><h2>The new key</h2>
    <p><code class="secret">\(key.text)</code></p>
    <p>It is shown this once only: only its digest is stored.</p></section>
    """
  }

  private func row(_ key: StoredKey, _ viewer: Page.Viewer) -> HTML {
    """
    <tr\(HTML.when(key.revokedAt != nil, " class=\"over\""))>
    <th scope="row">\(key.name)</th>
    <td data-label="Id"><code>\(key.id)</code></td>
    <td data-label="Scopes">\(key.scopes.joined(separator: ", "))</td>
    <td data-label="Apps">\(key.reach.text)</td>
    <td data-label="Made">\(day(key.createdAt))</td>
    <td data-label="Last used">\(access.keys.lastUse(of: key).map(time) ?? "never")</td>
    <td class="act">\(key.revokedAt.map { "revoked \(day($0))" } ?? revokeForm(key, viewer))</td>
    </tr>
    """
  }

  private func revokeForm(_ key: StoredKey, _ viewer: Page.Viewer) -> HTML {
    if key.id == viewer.caller.keyID { return "yours" }
    return """
      <details><summary>Revoke…</summary>
      <form method="post" action="/keys/\(key.id.asPathSegment)/revoke">\(Page.token(viewer))
      <button class="danger">Revoke for good</button></form></details>
      """
  }

  private func createForm(_ viewer: Page.Viewer) -> HTML {
    let scopes = Scope.allCases.map { scope -> HTML in
      """
      <label class="choice"><input type="checkbox" name="scope" value="\(scope.rawValue)"> \(scope.rawValue)</label>
      """
    }
    let apps = access.deployment.apps.filter { viewer.caller.sees(app: $0.id) }.prefix(200).map { app -> HTML in
      "<label class=\"choice\"><input type=\"checkbox\" name=\"app\" value=\"\(app.id)\"> \(app.id)</label>"
    }
    let all = HTML.when(
      viewer.caller.seesAllApps,
      "<label class=\"choice\"><input type=\"checkbox\" name=\"all-apps\" value=\"yes\"> "
        + "all apps, also those that come later</label>")
    return """
      <form class="card" method="post" action="/keys"><h2>New key</h2>
      \(Page.token(viewer))
      <label for="name">Name</label>
      <input id="name" name="name" required maxlength="100" autocomplete="off">
      <fieldset><legend>Scopes</legend>\(Array(scopes))</fieldset>
      <fieldset><legend>Apps</legend>\(all)\(Array(apps))</fieldset>
      <button>Make the key</button>
      </form>
      """
  }

  /// - Parameter trail: gets the new key's id.
  func createKey(_ form: FormBody, _ viewer: Page.Viewer, _ trail: TrailNote?) async throws -> Page {
    try demand(.admin, of: viewer)
    let name = String(form["name"].drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
    guard !name.isEmpty, name.count <= 100 else {
      throw Problem(.unprocessableContent, "No name", "A key needs a name of at most 100 characters.")
    }
    let scopes = Set(form.all("scope").compactMap(Scope.init(rawValue:)))
    guard !scopes.isEmpty else { throw Problem(.unprocessableContent, "No scope", "Choose at least one scope.") }
    let known = access.deployment.apps.map(\.id).filter { viewer.caller.sees(app: $0) }
    let chosen = form.all("app")
    guard chosen.allSatisfy({ known.contains($0) }) else { throw Problem.notFound }
    let isForAll = form["all-apps"] == "yes"
    guard isForAll != !chosen.isEmpty else {
      throw Problem(
        .unprocessableContent, chosen.isEmpty ? "No app" : "All apps, or some",
        "A key is for all apps, or for those that you choose.")
    }
    let key = APIKey.make()
    let isAdded = try await store.add(
      StoredKey(
        id: key.id, name: name, digest: key.digest, scopes: Scope.allCases.filter(scopes.contains).map(\.rawValue),
        reach: isForAll ? .all : .only(Set(chosen)), createdAt: access.clock.now),
      by: viewer.caller.keyID)
    guard isAdded else {
      throw Problem(
        .forbidden, "Not allowed", "A new key reaches no further than yours, and yours is not for all of these apps.",
        action: "Choose apps that your key is for.")
    }
    access.keys.changed()
    trail?.add("created", key.id)
    return try await keys(viewer, created: key)
  }

  func revokeKey(_ id: String, _ viewer: Page.Viewer) async throws -> Response {
    try demand(.admin, of: viewer)
    guard try await visibleKeys(viewer).contains(where: { $0.id == id }) else { throw Problem.notFound }
    guard id != viewer.caller.keyID else {
      throw Problem(.conflict, "Your own key", "You are logged in with this key.", action: "Log in with another one.")
    }
    _ = try await store.revokeKey(id, at: access.clock.now)
    access.keys.changed()
    return Page.redirect("/keys")
  }
}
