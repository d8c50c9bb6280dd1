"""Uses the dashboard with headless Chromium, through chromedriver's W3C interface.

Arguments: the service's port, a key, an app and a device token.
Prints one line for each step, and exits with 0 if all of them worked.
"""

import base64
import json
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

    def text(self, selector):
        return self.call("GET", self.find(selector) + "/text")

    def type(self, selector, text):
        element = self.find(selector)
        self.call("POST", element + "/clear")
        self.call("POST", element + "/value", {"text": text})

    def click(self, selector):
        self.call("POST", self.find(selector) + "/click")

    def resize(self, width, height):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": size})

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", "/screenshot")))

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
    print(text, flush=True)


def log_in(driver, base, key):
    driver.open(base + "/")
    driver.type("#key", key)
    driver.click("form.login button")
    check(driver.text("h1") == "Overview", "the overview follows the login")


def send_test(driver, app, token):
    driver.click(f"a[href='/apps/{app}']")
    driver.find("#test")
    driver.type("#token", token)
    driver.type("#title", "From <the> dashboard")
    driver.click("#test button")


def main():
    port, key, app, token = sys.argv[1:]
    base = f"http://127.0.0.1:{port}"
    driver = Driver()
    try:
        log_in(driver, base, key)
        send_test(driver, app, token)
        # The page's script brings the outcome; nothing is loaded again by hand.
        driver.find("#result[data-state=accepted]")
        check(True, "the test notification was accepted")
        for size in (1300, 500, 400):
            for path in ("/", f"/apps/{app}", "/keys"):
                driver.resize(size, 900)
                driver.open(base + path)
                driver.find("main")
                excess = driver.call("POST", "/execute/sync", {
                    "script": "return document.documentElement.scrollWidth - window.innerWidth", "args": []})
                check(excess <= 0, f"{path} is not wider than a window of {size}")
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
        while driver.call("GET", driver.find("#result") + "/attribute/data-state") != "accepted":
            if time.monotonic() > deadline:
                sys.exit("the outcome does not come")
            driver.call("POST", "/refresh")
        check(True, "without scripts, the test notification was accepted")
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
