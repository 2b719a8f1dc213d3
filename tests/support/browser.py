"""Headless Chromium, where Debian's packages chromium and chromium-driver are installed."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PROGRAMS = ("chromium", "chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing() -> str:
    """Why no browser can be started, "" if one can."""
    absent = [program for program in PROGRAMS if not shutil.which(program)]
    return f"{' and '.join(absent)}: not installed" if absent else ""


class Browser:
    """One window. What it asks the network for and complains of is kept."""

    def __init__(self, profile: str) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.binary_location = shutil.which("chromium") or ""
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))

    def cdp(self, command: str, **arguments: Any) -> dict[str, Any]:
        """A command of the Chrome DevTools protocol."""
        answer: dict[str, Any] = self.driver.execute_cdp_cmd(command, arguments)
        return answer

    def open(self, page: Path, width: int = 1280, *, dark: bool = False, media: str = "") -> None:
        """Load a page at that width."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.driver.get(page.as_uri())

    def run(self, script: str) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script)

    def complaints(self) -> list[str]:
        """What stands in the console since the page was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses requested since the page was opened, without the browser's own start page."""
        events = [json.loads(entry["message"]) for entry in self.driver.get_log("performance")]
        urls = [
            event["message"]["params"]["request"]["url"]
            for event in events
            if event["message"]["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith("chrome://")]

    def picture(self, height: int | None = None) -> bytes:
        """The page as PNG, its first `height` pixels or the whole."""
        width, whole = self.run(
            "return [document.documentElement.clientWidth, document.documentElement.scrollHeight]"
        )
        clip = {"x": 0, "y": 0, "width": width, "height": height or whole, "scale": 1}
        shot = self.cdp("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a fresh profile."""
    with TemporaryDirectory() as profile:
        opened = Browser(profile)
        try:
            yield opened
        finally:
            opened.driver.quit()
