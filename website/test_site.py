"""The built site, as a visitor has it: from file://, below any path, on a phone, in the dark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from browser import Browser, browser, missing

from doctor import catalog
from doctor.judge.sources import DOCUMENTS
from doctor.report import addresses

SITE = Path(__file__).parents[1] / "build/site"
PAGES = sorted(SITE.rglob("*.html"))
SHOWN = (
    "index", "which-command", "checks/index", "checks/NUM003", "run", "hardware", "documents",
    "errors/index", "errors/attention", "scan", "data", "fleet", "compare", "compared", "rehearse",
    "lint", "triage", "guard", "formats", "users/renter", "stability", "CHANGELOG", "CONTRIBUTING",
)  # fmt: skip
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
chromium = pytest.mark.skipif(bool(missing()), reason=missing())


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors = {""}
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values.get("id", ""), values.get("name", "")}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADS and LOADS[tag] in values:
            self.loads.append(values[LOADS[tag]])


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    assert len(PAGES) > 200, "run python website/build.py"
    return {path: Page(path) for path in PAGES}


def test_every_link_leads_to_a_page_and_its_anchor(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            name, _, anchor = unquote(link).partition("#")
            if "://" in name or name.startswith(("mailto:", "data:")):
                continue
            target = (path.parent / name).resolve() if name else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists() or (target in pages and anchor not in pages[target].anchors):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert not broken


def test_nothing_is_loaded_from_another_host_or_from_the_root(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for name in page.loads:
            assert not name.startswith(("http:", "https:", "/")), (path, name)
    for style in SITE.rglob("*.css"):
        assert "url(http" not in style.read_text("utf-8").replace('"', "").replace("'", "")


def test_every_code_and_every_section_has_its_page(pages: dict[Path, Page]) -> None:
    for check in catalog.CHECKS:
        assert SITE / f"checks/{check.code}.html" in pages
    documents = pages[SITE / "documents.html"]
    assert {addresses.anchor(source.id) for source in DOCUMENTS} <= documents.anchors


def test_what_programs_read_leads_to_pages() -> None:
    text = (SITE / "llms.txt").read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 5
    assert [link for link in links if not (SITE / link).exists()] == []


def test_every_document_is_in_the_navigation(pages: dict[Path, Page]) -> None:
    docs = SITE.parents[1] / "docs"
    links = pages[SITE / "index.html"].links
    for path in docs.glob("*.md"):
        assert path.name == "README.md" or f"{path.stem}.html" in links


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_the_window_and_report_no_error(window: Browser, width: int, dark: bool) -> None:
    for name in SHOWN:
        window.open(SITE / f"{name}.html", width, dark=dark)
        wide = window.run("return document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, (name, wide)
        colour = window.run("return getComputedStyle(document.body).backgroundColor")
        bright = sum(int(part) for part in colour[4:-1].split(",")[:3]) > 3 * 127
        assert bright != dark, (name, colour)
        errors = [entry for entry in window.driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert not errors, name


@chromium
def test_search_finds_a_code_without_a_server(window: Browser) -> None:
    window.open(SITE / "search.html")
    window.driver.get(f"{(SITE / 'search.html').as_uri()}?q=NUM003")
    found = "return [...document.querySelectorAll('#search-results a')].map(a => a.href).join()"
    window.wait_until(lambda: "checks/NUM003.html" in window.run(found))


@chromium
@pytest.mark.skipif("AXE" not in os.environ, reason="AXE names no axe.min.js")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_no_violation(window: Browser, dark: bool) -> None:
    axe = Path(os.environ["AXE"]).read_text("utf-8")
    window.driver.set_script_timeout(300)
    for name in SHOWN:
        window.open(SITE / f"{name}.html", dark=dark)
        window.run(axe)
        result = window.driver.execute_async_script(
            "const done = arguments[0]; axe.run().then(r => done(r.violations.map("
            "v => v.id + ' ' + v.nodes.length + ' ' + v.nodes[0].html)))"
        )
        assert result == [], name
