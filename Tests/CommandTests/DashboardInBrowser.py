"""Uses the dashboard with headless Chromium, through chromedriver's W3C interface.

Arguments: the service's port, a key, an app, a device token, and paths of more pages.
Prints one line for each step, and exits with 0 if all of them worked.

With CARILLON_SCREENSHOTS=DIR in the environment, it leaves a picture of every page there: in three
widths, and dark.
"""

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
PATIENCE = 120
STARTS = 8
BEGUN = time.monotonic()


class Driver:
    def __init__(self, script=True):
        problems = []
        while len(problems) < STARTS:
            self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            try:
                self.start(script)
                return
            except (LookupError, OSError) as problem:
                problems.append(str(problem))
                print(f"start {len(problems)} failed: {problem}", flush=True)
                self.end()
        sys.exit("the browser does not start: " + "; ".join(problems))

    def start(self, script):
        """Raises LookupError or OSError if chromedriver or its browser does not start.

        chromedriver takes a port that is free with IPv4, and ends if another process has it with IPv6.
        """
        self.process = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stdout:
            said.append(line.strip())
            started = re.search(r"started successfully on port (\d+)", line)
            if started:
                self.base = f"http://127.0.0.1:{started[1]}"
                break
        else:
            raise LookupError(f"chromedriver has ended: {' '.join(said)[:500]}")
        arguments = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={self.profile.name}",
        ]
        options = {"args": arguments, "binary": "/usr/bin/chromium"}
        if not script:
            options["prefs"] = {"profile.managed_default_content_settings.javascript": 2}
        capabilities = {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"},
        }
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}}, prefix="")
        self.session = f"/session/{session['sessionId']}"

    def call(self, method, path, body=None, prefix=None):
        url = self.base + (self.session if prefix is None else prefix) + path
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise LookupError(error.read().decode()[:500]) from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def find(self, selector):
        """Waits for an element."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                found = self.call("POST", "/element", {"using": "css selector", "value": selector})
                return f"/element/{found[ELEMENT]}"
            except LookupError as error:
                if time.monotonic() > deadline:
                    sys.exit(f"no {selector}: {error}\n{self.call('GET', '/source')[:2000]}")
                time.sleep(0.05)

    def act(self, selector, *steps):
        """Begins again with an element that the page's script has replaced meanwhile."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                element = self.find(selector)
                return [self.call(method, element + path, body) for method, path, body in steps][-1]
            except LookupError as error:
                if "stale element" not in str(error) or time.monotonic() > deadline:
                    raise

    def text(self, selector):
        return self.act(selector, ("GET", "/text", None))

    def type(self, selector, text):
        self.act(selector, ("POST", "/clear", None), ("POST", "/value", {"text": text}))

    def click(self, selector):
        self.act(selector, ("POST", "/click", None))

    def resize(self, width, height):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": size})

    def colours(self, scheme):
        """Light or dark, as the system's setting says it."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [feature]}})

    def evaluate(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": arguments})

    def screenshot(self, path):
        """The whole page, however long it is."""
        width, height = self.evaluate("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        parameters = {"captureBeyondViewport": True, "clip": clip}
        shot = self.call("POST", "/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": parameters})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def complaints(self):
        """What the browser has reported: a refused script or style, a file that is missing."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]

    def quit(self):
        try:
            self.call("DELETE", "")
        finally:
            self.end()

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.profile.cleanup()


def check(condition, text):
    if not condition:
        sys.exit(f"not true: {text}")
    print(f"{time.monotonic() - BEGUN:.1f} s: {text}", flush=True)


def log_in(driver, base, key):
    driver.open(base + "/")
    driver.type("#key", key)
    driver.click("form.login button")
    # The login page has a heading as well.
    driver.find("#summary")
    check(driver.text("h1") == "Overview", "the overview follows the login")


def send_test(driver, app, token):
    driver.click(f"a[href='/apps/{app}']")
    driver.find("#test")
    driver.type("#token", token)
    driver.type("#title", "From <the> dashboard")
    driver.click("#test button")


# The texts that are hard to read on what is behind them, with the contrast as WCAG defines it.
PALE = """
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  function parse(colour) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  }
  function luminance(colour) {
    const [red, green, blue] = colour.slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }
  function behind(element) {
    for (let place = element; place; place = place.parentElement) {
      const colour = parse(getComputedStyle(place).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  }
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.getClientRects().length) continue;
    const pair = [luminance(parse(getComputedStyle(element).color)), luminance(behind(element))];
    const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (contrast < 4.5) found.push(walker.currentNode.data.trim().slice(0, 40) + ": " + contrast.toFixed(2));
  }
  return found;
"""


# A page that is wider than the window scrolls sideways.
EXCESS = "const page = document.documentElement; return page.scrollWidth - page.clientWidth"


def look(driver, base, path, pictures):
    """Checks a page in every width, and that it can be read in the light and in the dark."""
    driver.open(base + path)
    driver.find("main")
    name = "-".join(part for part in path.split("/") if part) or "overview"
    excess = {}
    for width in (1300, 500, 400):
        driver.resize(width, 900)
        excess[width] = driver.evaluate(EXCESS)
        if pictures:
            driver.screenshot(f"{pictures}/{name}-{width}.png")
    check(max(excess.values()) <= 0, f"{path} is not wider than the window: {excess}")
    driver.resize(1300, 900)
    for scheme in ("dark", "light"):
        driver.colours(scheme)
        pale = driver.evaluate(PALE)
        check(not pale, f"{path} can be read in the {scheme} {pale or ''}")
        if pictures and scheme == "dark":
            driver.screenshot(f"{pictures}/{name}-dark.png")


def wait_until(driver, condition, text):
    """Waits for a condition in the page."""
    deadline = time.monotonic() + PATIENCE
    while not driver.evaluate(f"return {condition}"):
        if time.monotonic() > deadline:
            sys.exit(f"not true: {text}\n{driver.call('GET', '/source')[:2000]}")
        time.sleep(0.05)
    check(True, text)


def keep_fresh(driver, base, path, pictures):
    """A part with the focus is shown anew as well, and a page that is not says so."""
    driver.open(base + path)
    driver.find("#campaigns a")
    driver.evaluate("""
      window.first = document.getElementById("campaigns");
      window.link = first.querySelector("a[href*='/campaigns/']");
      link.focus();
    """)
    wait_until(driver, "document.getElementById('campaigns') !== first", f"{path} with a focused link is shown anew")
    same = "document.activeElement.getAttribute('href') === link.getAttribute('href')"
    check(driver.evaluate(f"return {same}"), "the link has the focus again")
    driver.evaluate("window.real = fetch; window.fetch = async () => new Response('', { status: 503 })")
    wait_until(driver, "document.getElementById('stale')?.textContent.includes('answers with 503')", "a 503 is said")
    driver.evaluate("window.fetch = () => Promise.reject(new TypeError('Failed to fetch'))")
    wait_until(driver, "document.getElementById('stale').textContent.includes('does not answer')", "silence is said")
    age = "document.getElementById('age')"
    wait_until(driver, f"{age}.classList.contains('old')", "the page says that it is old")
    check(driver.evaluate(f"return parseInt({age}.textContent) >= 15"), "it says how old")
    for width in (1300, 400):
        driver.resize(width, 900)
        check(driver.evaluate(EXCESS) <= 0, f"the note fits into {width} pixels")
        if pictures:
            driver.screenshot(f"{pictures}/stale-{width}.png")
    pale = driver.evaluate(PALE)
    check(not pale, f"the note can be read {pale or ''}")
    driver.evaluate("window.fetch = real")
    wait_until(driver, "!document.getElementById('stale')", "the note is gone when the page is fresh")
    wait_until(driver, f"!{age}.classList.contains('old')", "and it is not old any more")


def announce(driver, base):
    """A new alarm is said to those who listen to the page."""
    driver.open(base + "/")
    driver.find("[data-alarm]")
    driver.evaluate("window.text = document.querySelector('[data-alarm] strong').textContent.slice(0, 12)")
    driver.evaluate("document.querySelector('[data-alarm]').remove()")
    said = "document.getElementById('announcement').textContent"
    wait_until(driver, f"{said}.includes(text)", "an alarm is announced when it is new")
    said = driver.evaluate(f"return {said}")
    check(said.count(driver.evaluate("return text")) == 1, "once")


def keep_cells(driver, base):
    """A table with a button that has the focus is shown anew around it."""
    driver.open(base + "/nodes")
    driver.find("#nodes td button")
    driver.evaluate("""
      window.button = document.querySelector("#nodes td button");
      button.focus();
      window.cell = button.closest("tr").querySelector("td[data-label=Segments]");
      cell.textContent = "old";
    """)
    wait_until(driver, "cell.textContent !== 'old'", "a table with a focused button is shown anew, cell by cell")
    check(driver.evaluate("return document.activeElement === button"), "the button has the focus still")


def go_to_content(driver, base):
    """Who uses the keyboard passes over the navigation."""
    driver.open(base + "/")
    driver.evaluate("document.querySelector('a.skip').focus()")
    place = driver.evaluate("return document.querySelector('a.skip').getBoundingClientRect().left")
    check(place >= 0, "the first link can be seen when it has the focus")
    small = driver.evaluate(SMALL)
    check(not small, f"whatever one presses is 24 pixels high {small or ''}")


# What stands alone and is less than 24 pixels high or wide. Links within text may be.
SMALL = """
  const found = [];
  for (const element of document.querySelectorAll("button, summary, input, select, nav a, thead a, .spans a")) {
    const { width, height } = element.getBoundingClientRect();
    if (width && height && Math.min(width, height) < 23.9) found.push(`${element.outerHTML.slice(0, 60)} ${height}`);
  }
  return found;
"""


def look_at(base, key, pages, pictures):
    """Only looks at pages."""
    driver = Driver()
    try:
        log_in(driver, base, key)
        for path in pages:
            look(driver, base, path, pictures)
        if "/nodes" in pages:
            keep_cells(driver, base)
        complaints = driver.complaints()
        check(not complaints, f"the browser reports nothing {complaints}")
    finally:
        driver.quit()


def main():
    port, key, app, token, *pages = sys.argv[1:]
    base = f"http://127.0.0.1:{port}"
    pictures = os.environ.get("CARILLON_SCREENSHOTS")
    if pictures:
        os.makedirs(pictures, exist_ok=True)
    if not app:
        return look_at(base, key, pages, pictures)
    driver = Driver()
    try:
        look(driver, base, "/login", pictures)
        log_in(driver, base, key)
        send_test(driver, app, token)
        # The page's script brings the outcome; nothing is loaded again by hand.
        driver.find("#result[data-state=accepted]")
        check(True, "the test notification was accepted")
        if pictures:
            # Old enough for every alarm.
            time.sleep(70)
        driver.open(base + "/campaigns")
        # A campaign that sends, and how long it still takes.
        driver.find("progress")
        driver.find("[data-left]")
        keep_fresh(driver, base, "/campaigns", pictures)
        announce(driver, base)
        go_to_content(driver, base)
        for path in ("/", f"/apps/{app}", f"/apps/{app}/devices", "/campaigns", "/events", "/keys", *pages):
            look(driver, base, path, pictures)
        complaints = driver.complaints()
        check(not complaints, f"the browser reports nothing {complaints}")
    finally:
        driver.quit()

    driver = Driver(script=False)
    try:
        log_in(driver, base, key)
        check(app in driver.text("#apps"), "without scripts, the overview has the app")
        send_test(driver, app, token)
        deadline = time.monotonic() + PATIENCE
        while driver.act("#result", ("GET", "/attribute/data-state", None)) != "accepted":
            if time.monotonic() > deadline:
                sys.exit("the outcome does not come")
            driver.call("POST", "/refresh")
        check(True, "without scripts, the test notification was accepted")
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
