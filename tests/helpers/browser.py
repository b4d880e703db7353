"""A headless Chromium, spoken to over a pipe (the DevTools protocol); needs no further package."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from contextlib import contextmanager

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
    "--force-device-scale-factor=1",
)  # fmt: skip
PATIENCE = 300
"""Seconds for one answer; a busy machine needs a minute to start a browser."""


def browser_path():
    """The browser that CHROMIUM names, or one on the PATH; None if there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def browser(path):
    """A running browser with one open page."""
    to_browser, ours = os.pipe()
    theirs, from_browser = os.pipe()
    # The protocol's numbers are 3, read by the browser, and 4, written by it.
    redirect = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
    child = subprocess.Popen(
        ["bash", "-c", redirect, path, *FLAGS, "about:blank"],
        pass_fds=(to_browser, from_browser),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(ours, theirs)
    finally:
        child.kill()
        child.wait()
        os.close(ours)
        os.close(theirs)


class Page:
    """The one page: opens files, sees what they ask for and say, takes pictures."""

    def __init__(self, out, into):
        self._out, self._into, self._rest, self._number = out, into, b"", 0
        self.events, self._session = [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, path, *, width=1200, height=800, scheme="light", media="screen"):
        """Open a file; returns (requests beside the file's own, messages on the console)."""
        self.events.clear()
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call("Page.navigate", url=path.absolute().as_uri())
        self._until(lambda: any(e["method"] == "Page.loadEventFired" for e in self.events))
        self.call("Runtime.evaluate", expression="1")
        asked = [e for e in self.events if e["method"] == "Network.requestWillBeSent"]
        urls = [e["params"]["request"]["url"] for e in asked]
        told = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        said = [e["params"] for e in self.events if e["method"] in told]
        return [url for url in urls if url != path.absolute().as_uri()], said

    def value(self, expression):
        """What a JavaScript expression gives, as JSON."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return told["result"].get("value")

    def picture(self, path, *, top=0, height=None):
        """A PNG of what is seen from `top` on."""
        width = self.value("innerWidth")
        clip = {"x": 0, "y": top, "width": width, "height": height or self.value("innerHeight")}
        found = self.call(
            "Page.captureScreenshot", clip={**clip, "scale": 1}, captureBeyondViewport=True
        )
        path.write_bytes(base64.b64decode(found["data"]))

    def pdf(self, path):
        """The page as it is printed."""
        found = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def call(self, method, **params):
        """The answer of one command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        answers = []
        self._until(lambda: self._take(answers))
        (answer,) = answers
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def _take(self, answers):
        """Move the answer to the last command from the events; whether it was there."""
        found = [event for event in self.events if event.get("id") == self._number]
        answers += found
        self.events = [event for event in self.events if "method" in event]
        return bool(found)

    def _until(self, done):
        end = time.monotonic() + PATIENCE
        while not done():
            ready, _, _ = select.select([self._into], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            read = os.read(self._into, 1 << 20)
            assert read, "the browser has ended"
            *whole, self._rest = (self._rest + read).split(b"\0")
            self.events += map(json.loads, whole)
