internal import Hummingbird
internal import NIOCore

/// The files that pages load: they are part of the program.
enum DashboardAssets {
  static func add(to router: Router<ControlContext>) {
    for (path, type, text) in [
      ("assets/style.css", "text/css; charset=utf-8", style),
      ("assets/refresh.js", "text/javascript; charset=utf-8", refresh),
      ("assets/icon.svg", "image/svg+xml", icon),
    ] {
      router.get(RouterPath(path)) { _, _ in
        var headers = Page.headers
        headers[.contentType] = type
        // Another version of the program has other files under the same names.
        headers[.cacheControl] = "no-cache"
        return Response(status: .ok, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
      }
    }
  }

  /// Shows the present state every few seconds, without touching a form that is being filled in.
  /// Without it the pages are the same, and are loaded again by hand or by the browser.
  private static let refresh = """
    "use strict";
    const seconds = 5;

    async function update() {
      if (document.hidden) return;
      let page;
      try {
        const reply = await fetch(location.href, { credentials: "same-origin", cache: "no-store" });
        if (reply.redirected) { location.reload(); return; }
        if (!reply.ok) return;
        page = new DOMParser().parseFromString(await reply.text(), "text/html");
      } catch {
        document.body.classList.add("offline");
        return;
      }
      document.body.classList.remove("offline");
      for (const part of document.querySelectorAll("[data-live]")) {
        const fresh = page.getElementById(part.id);
        // What the user has opened, or is about to press, stays.
        if (!fresh || part.contains(document.activeElement) || part.querySelector("details[open]")) continue;
        part.replaceWith(document.adoptNode(fresh));
      }
      document.title = page.title;
    }

    if (document.querySelector("[data-live]")) setInterval(update, seconds * 1000);

    """

  private static let icon = """
    <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="#2f6fde" d="M16 3a9 9 0 0 0-9 9c0 8-4 9-4 \
    12h26c0-3-4-4-4-12a9 9 0 0 0-9-9zm-4 23a4 4 0 0 0 8 0z"/></svg>

    """
}
