internal import HTTPTypes
internal import Hummingbird
internal import NIOCore

/// A page of the dashboard as it is sent: the frame around what it shows.
struct Page: Sendable {
  /// Who looks at it, and what stands in its forms.
  struct Viewer: Sendable {
    let caller: Caller
    let name: String
    let formToken: String
    let program: ProgramFacts
    /// Several processes share the store, and the viewer may see all that they carry.
    var seesNodes = false

    func may(_ scope: Scope) -> Bool { caller.may(scope) }
  }

  let title: String
  /// Nil before the login.
  let viewer: Viewer?
  let body: HTML
  /// Seconds after which a browser without JavaScript reloads it. Nil: never: it may have a form.
  var refresh: Int?

  var html: HTML {
    """
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <title>\(title) – Carillon</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    \(refresh.map { "<noscript><meta http-equiv=\"refresh\" content=\"\($0)\"></noscript>" } ?? HTML.empty)
    <link rel="stylesheet" href="/assets/style.css">
    <link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
    <script src="/assets/refresh.js" defer></script>
    </head>
    <body>
    \(viewer.map(header) ?? HTML.empty)
    <main id="main" tabindex="-1">
    \(body)
    </main>
    \(viewer.map { "<footer>carillon \($0.program.text)</footer>" } ?? HTML.empty)
    </body>
    </html>

    """
  }

  private func header(_ viewer: Viewer) -> HTML {
    """
    <a class="skip" href="#main">To the content</a>
    <header>
    <a class="brand" href="/">Carillon</a>
    <nav>
    <a href="/"\(current("Overview"))>Overview</a>
    <a href="/campaigns"\(current("Campaigns"))>Campaigns</a>
    \(HTML.when(viewer.seesNodes, "<a href=\"/nodes\"\(current("Nodes"))>Nodes</a>"))
    \(HTML.when(viewer.may(.admin), "<a href=\"/events\"\(current("Events"))>Events</a>"))
    \(HTML.when(viewer.may(.admin), "<a href=\"/keys\"\(current("Keys"))>Keys</a>"))
    </nav>
    <p id="age" class="hint" hidden></p>
    <p id="announcement" class="unseen" aria-live="polite"></p>
    <form method="post" action="/logout">
    \(Page.token(viewer))
    <span class="who">\(viewer.name)</span> <button class="quiet">Log out</button>
    </form>
    </header>
    """
  }

  private func current(_ title: String) -> HTML { HTML.when(title == self.title, " aria-current=\"page\"") }

  /// A number that one looks at first, in a list of the class `tiles`.
  static func tile(_ title: String, _ value: String, _ hint: HTML) -> HTML {
    "<div><dt>\(title)</dt><dd><strong>\(value)</strong> <span class=\"hint\">\(hint)</span></dd></div>"
  }

  /// What proves that a form came from a page of this session.
  static func token(_ viewer: Viewer) -> HTML {
    "<input type=\"hidden\" name=\"\(DashboardForm.tokenField)\" value=\"\(viewer.formToken)\">"
  }

  /// The head of a table.
  ///
  /// - Parameter titles: those of numbers begin with `#`.
  static func head(_ titles: String...) -> HTML {
    let cells = titles.map { title -> HTML in
      title.hasPrefix("#")
        ? "<th scope=\"col\" class=\"number\">\(title.dropFirst())</th>" : "<th scope=\"col\">\(title)</th>"
    }
    return "<thead><tr>\(cells)</tr></thead>"
  }

  func response(_ status: HTTPResponse.Status = .ok) -> Response {
    var headers = Self.headers
    headers[.contentType] = "text/html; charset=utf-8"
    headers[.cacheControl] = "no-store"
    return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(string: html.text)))
  }

  /// The browser loads another page, with GET.
  static func redirect(_ path: String) -> Response {
    var headers = Self.headers
    headers[.location] = path
    headers[.cacheControl] = "no-store"
    return Response(status: .seeOther, headers: headers)
  }

  /// Nothing but the service's own files is loaded or run, whatever stands in a page.
  static var headers: HTTPFields {
    var fields: HTTPFields = [
      .contentSecurityPolicy:
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        + "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      .xContentTypeOptions: "nosniff",
    ]
    // With no-referrer, browsers would leave the origin out of forms.
    for (name, value) in [
      ("Referrer-Policy", "same-origin"), ("X-Frame-Options", "DENY"), ("Cross-Origin-Opener-Policy", "same-origin"),
      ("Cross-Origin-Resource-Policy", "same-origin"),
    ] {
      if let name = HTTPField.Name(name) { fields[name] = value }
    }
    return fields
  }
}
