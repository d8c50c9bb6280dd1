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

    // What the user has opened, fills in or is about to press, stays.
    function isInUse(part) {
      const focused = part.contains(document.activeElement) ? document.activeElement : null;
      return part.querySelector("details[open]") || focused && !focused.matches("a[href]");
    }

    // A table in use is shown anew cell by cell. A row is known by its head.
    function refill(table, fresh) {
      const name = (row) => row.querySelector("th")?.textContent ?? row.rowIndex;
      const rows = new Map([...fresh.rows].map((row) => [name(row), row]));
      for (const row of table.rows) {
        const other = rows.get(name(row));
        if (!other || other.cells.length !== row.cells.length) continue;
        [...row.cells].forEach((cell, index) => {
          const now = other.cells[index];
          if (isInUse(cell) || cell.innerHTML === now.innerHTML) return;
          cell.innerHTML = now.innerHTML;
          cell.className = now.className;
        });
      }
    }

    // Says which alarms are new, once.
    function announce(page) {
      const name = (alarm) => `${alarm.dataset.alarm} ${alarm.dataset.of}`;
      const known = new Set([...document.querySelectorAll("[data-alarm]")].map(name));
      const found = [...page.querySelectorAll("[data-alarm]")].filter((alarm) => !known.has(name(alarm)));
      const texts = found.map((alarm) => `${alarm.dataset.of} ${alarm.querySelector("strong").textContent}`);
      if (texts.length) document.getElementById("announcement").textContent = texts.join(" ");
    }

    function show(page) {
      announce(page);
      for (const part of document.querySelectorAll("[data-live]")) {
        const fresh = page.getElementById(part.id);
        if (!fresh) continue;
        if (isInUse(part)) {
          const tables = fresh.querySelectorAll("table");
          part.querySelectorAll("table").forEach((table, index) => tables[index] && refill(table, tables[index]));
          continue;
        }
        const focused = part.contains(document.activeElement) ? document.activeElement : null;
        const target = focused && focused.getAttribute("href");
        part.replaceWith(document.adoptNode(fresh));
        if (!focused) continue;
        const links = [...fresh.querySelectorAll("a[href]")];
        links.find((link) => link.getAttribute("href") === target)?.focus();
      }
      document.title = page.title;
    }

    function tell() {
      const age = document.getElementById("age");
      if (!age) return;
      const passed = Math.round((new Date() - shownAt) / 1000);
      age.hidden = false;
      age.textContent = passed < 2 ? "just now" : `${passed} s ago`;
      age.classList.toggle("old", passed > 3 * seconds);
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

    if (document.querySelector("[data-live]")) {
      setInterval(update, seconds * 1000);
      setInterval(tell, 1000);
    }

    """

  private static let icon = """
    <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="#2f6fde" d="M16 3a9 9 0 0 0-9 9c0 8-4 9-4 \
    12h26c0-3-4-4-4-12a9 9 0 0 0-9-9zm-4 23a4 4 0 0 0 8 0z"/></svg>

    """
}
