"""Headless Chromium, where Debian's packages chromium and chromium-driver are installed."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
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
    """One window. Its network requests and console errors are recorded."""

    def __init__(self, profile: str) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.binary_location = shutil.which("chromium") or ""
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        self.driver.get("about:blank")  # cancels the requests of Chromium's start page
        self.cdp("Emulation.setFocusEmulationEnabled", enabled=True)  # keys reach the page

    def cdp(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Run a command of the Chrome DevTools protocol."""
        result: dict[str, Any] = self.driver.execute_cdp_cmd(command, arguments)
        return result

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
        """Run a script in the page and return its result."""
        return self.driver.execute_script(script)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Poll until the condition holds. Raises TimeoutException after a minute.

        A condition that raises does not hold yet: elements go while a page takes another's place.
        """
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.support.ui import WebDriverWait

        wait = WebDriverWait(self.driver, 60, 0.05, ignored_exceptions=[WebDriverException])
        wait.until(lambda driver: condition())

    def errors(self) -> list[str]:
        """Console messages since the page was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses requested since the page was opened."""
        events = [json.loads(entry["message"]) for entry in self.driver.get_log("performance")]
        return [
            event["message"]["params"]["request"]["url"]
            for event in events
            if event["message"]["method"] == "Network.requestWillBeSent"
        ]

    def picture(self, height: int | None = None) -> bytes:
        """The page as PNG: its first `height` pixels, or all of it."""
        width, full = self.run(
            "return [document.documentElement.clientWidth, document.documentElement.scrollHeight]"
        )
        clip = {"x": 0, "y": 0, "width": width, "height": height or full, "scale": 1}
        shot = self.cdp("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a fresh profile."""
    with TemporaryDirectory() as profile:
        window = Browser(profile)
        try:
            yield window
        finally:
            window.driver.quit()
