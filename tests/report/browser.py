"""A headless Chromium by the DevTools protocol over two pipes: no extra packages, no port."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from contextlib import contextmanager

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0


class Browser:
    """Commands out by one pipe, answers and events in by another, each closed by a zero byte."""

    def __init__(self, out, back):
        self.out, self.back = out, back
        self.events, self._rest, self._number = [], b"", 0

    def call(self, method, session=None, **params):
        """The result of a command; events that come in meanwhile are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": session} if session else {}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def wait_for(self, method):
        """The parameters of the next event of this name, or of one that came before."""
        while not (found := [e for e in self.events if e["method"] == method]):
            self._read()
        return found[0]["params"]

    def _read(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self.back], [], [], max(end - time.monotonic(), 0))
            part = os.read(self.back, 1 << 20) if ready else b""
            assert part, "the browser does not answer"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message


@contextmanager
def chromium(profile):
    """A browser with a fresh profile in the given folder; it ends with the block."""
    to_browser, out = os.pipe()
    back, from_browser = os.pipe()
    # The protocol wants descriptors 3 and 4; a shell puts them there.
    script = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
    command = ["bash", "-c", script, PROGRAM, *FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        command,
        pass_fds=(to_browser, from_browser),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    browser = Browser(out, back)
    try:
        yield browser
        browser.call("Browser.close")
    finally:
        os.close(out)
        os.close(back)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Page:
    """A tab that shows a file, and everything that it said and asked for meanwhile."""

    def __init__(self, browser, path, width, height=900):
        self.browser = browser
        browser.events.clear()
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._target = target
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        browser.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        browser.wait_for("Page.loadEventFired")

    def call(self, method, **params):
        return self.browser.call(method, self._session, **params)

    def resize(self, width, height=900):
        """Another window, of a phone below 600 pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def evaluate(self, expression):
        """The value of a JavaScript expression, asked from outside the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def requests(self):
        """The addresses that the page asked for."""
        events = [e for e in self.browser.events if e["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in events]

    def complaints(self):
        """What the console and the log of the browser say."""
        names = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.browser.events if event["method"] in names]

    def pdf(self):
        """The page in print."""
        shown = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=False)
        return base64.b64decode(shown["data"])

    def screenshot(self):
        """The whole page as PNG."""
        shown = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(shown["data"])

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self._target)
