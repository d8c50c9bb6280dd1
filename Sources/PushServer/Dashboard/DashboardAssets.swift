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
    let shownAt = new Date();
    let isUnderWay = false;

    async function load() {
      const reply = await fetch(location.href, {
        credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(4 * seconds * 1000),
      });
      if (reply.redirected) { location.reload(); return null; }
      if (reply.status === 404) throw new Error("The service no longer has this page.");
      if (!reply.ok) throw new Error(`The service answers with ${reply.status}.`);
      return new DOMParser().parseFromString(await reply.text(), "text/html");
    }

    // What the page shows is old: that is said above it.
    function warn(problem) {
      let note = document.getElementById("stale");
      if (!note) {
        note = document.createElement("p");
        note.id = "stale";
        note.setAttribute("role", "status");
        document.querySelector("main").prepend(note);
      }
      const text = `${problem} This is its state at ${shownAt.toLocaleTimeString()}.`;
      if (note.textContent !== text) note.textContent = text;
    }

    function show(page) {
      for (const part of document.querySelectorAll("[data-live]")) {
        const fresh = page.getElementById(part.id);
        const focused = part.contains(document.activeElement) ? document.activeElement : null;
        // What the user has opened, fills in or is about to press, stays.
        if (!fresh || part.querySelector("details[open]") || focused && !focused.matches("a[href]")) continue;
        const target = focused && focused.getAttribute("href");
        part.replaceWith(document.adoptNode(fresh));
        if (!focused) continue;
        const links = [...fresh.querySelectorAll("a[href]")];
        links.find((link) => link.getAttribute("href") === target)?.focus();
      }
      document.title = page.title;
    }

    async function update() {
      if (document.hidden || isUnderWay) return;
      isUnderWay = true;
      try {
        const page = await load();
        if (!page) return;
        show(page);
        shownAt = new Date();
        document.getElementById("stale")?.remove();
      } catch (error) {
        warn(error.constructor === Error ? error.message : "The service does not answer.");
      } finally {
        isUnderWay = false;
      }
    }

    if (document.querySelector("[data-live]")) setInterval(update, seconds * 1000);

    """

  private static let icon = """
    <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="#2f6fde" d="M16 3a9 9 0 0 0-9 9c0 8-4 9-4 \
    12h26c0-3-4-4-4-12a9 9 0 0 0-9-9zm-4 23a4 4 0 0 0 8 0z"/></svg>

    """
}
