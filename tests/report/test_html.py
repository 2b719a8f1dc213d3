"""The HTML report in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, browser, missing
from reports import HOSTILE, finding, hostile, judged, report, showcase

from doctor.judge.check import Status
from doctor.prescribe.rules import prescribe
from doctor.report.formats.html.page import render

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

CONTRAST = """
const light = colour => {
  const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(
    v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = element => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!/, 0\\)$/.test(colour)) return colour;
  }
};
return [...document.querySelectorAll('body *')].filter(
  element => [...element.childNodes].some(n => n.nodeType == 3 && n.data.trim())
).map(element => {
  const [a, b] = [getComputedStyle(element).color, behind(element)].map(light);
  return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.textContent.slice(0, 40)];
});
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    facts = showcase()
    full = judged(facts, annotate=True)
    settings = tuple(prescribe(facts, full.findings))
    reports = {
        "showcase": judged(facts, annotate=True, settings=settings),
        "hostile": hostile(),
        "empty": report(),
        "ready": report(finding("NUM001", Status.PASS)),
    }
    folder = tmp_path_factory.mktemp("pages")
    for name, each in reports.items():
        (folder / f"{name}.html").write_text(render(each), "ascii")
    return {name: folder / f"{name}.html" for name in reports}


NAMES = pytest.mark.parametrize("name", ["showcase", "hostile", "empty", "ready"])


@NAMES
def test_a_page_makes_no_request_and_logs_no_error(
    chromium: Browser, pages: dict[str, Path], name: str
) -> None:
    chromium.open(pages[name])
    assert chromium.requests() == [pages[name].as_uri()]
    assert chromium.errors() == []


def test_the_content_security_policy_blocks_requests_styles_and_scripts(
    chromium: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.html"
    more = "<img src='https://127.0.0.1:9/x'><p style='color:red'></p><script>1</script></body>"
    broken.write_text(pages["ready"].read_text().replace("</body>", more))
    chromium.open(broken)
    errors = chromium.errors()
    assert len(errors) == 3
    assert all("Content Security Policy" in error for error in errors)


@NAMES
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_no_width_scrolls_sideways_and_every_text_has_enough_contrast(
    chromium: Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    chromium.open(pages[name], width, dark=dark)
    scroll_width, client_width = chromium.run(
        "document.querySelectorAll('details').forEach(each => each.open = true);"
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert scroll_width <= client_width <= width
    faint = [(ratio, text) for ratio, text in chromium.run(CONTRAST) if ratio < 4.5]
    assert faint == []


def test_the_colour_scheme_follows_the_browser(chromium: Browser, pages: dict[str, Path]) -> None:
    colours = []
    for dark in (False, True):
        chromium.open(pages["showcase"], dark=dark)
        colour = chromium.run("return getComputedStyle(document.body).backgroundColor")
        colours.append(sum(int(part) for part in colour[4:-1].split(",")))
    assert colours[0] > 700
    assert colours[1] < 100


@NAMES
def test_headings_landmarks_and_tables_are_labelled(
    chromium: Browser, pages: dict[str, Path], name: str
) -> None:
    chromium.open(pages[name])
    levels = chromium.run(
        "return [...document.querySelectorAll('h1,h2,h3,h4')].map(each => +each.tagName[1])"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert chromium.run(
        "return ['header', 'main', 'footer'].map(each => document.querySelectorAll(each).length)"
    ) == [1, 1, 1]
    unnamed = chromium.run(
        "return [...document.querySelectorAll('table')].filter(each => !each.caption ||"
        " [...each.querySelectorAll('th')].some(head => !head.scope)).length +"
        " document.querySelectorAll('svg:not([aria-hidden])').length"
    )
    assert unnamed == 0
    ids = chromium.run("return [...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))
    named = chromium.run(
        "return [...document.querySelectorAll('[aria-labelledby]')].map("
        "each => each.getAttribute('aria-labelledby'))"
    )
    assert set(named) <= set(ids)


def test_details_open_by_keyboard_without_scripts(
    chromium: Browser, pages: dict[str, Path]
) -> None:
    chromium.driver.get("about:blank")  # else the page before has the same elements
    chromium.cdp("Emulation.setScriptExecutionDisabled", value=True)
    try:
        chromium.open(pages["showcase"])  # without scripts the driver does not wait for the page
        chromium.wait_until(lambda: bool(outer(chromium, "details.why > summary")))
        chromium.wait_until(lambda: tab_reaches(chromium, "details.why > summary"))
        press(chromium, "Enter", 13, text="\r")
        opened = '<details class="why" open'
        chromium.wait_until(lambda: outer(chromium, "details.why:has(:focus)").startswith(opened))
        chromium.wait_until(lambda: "CKP004" in outer(chromium, "main"))
    finally:
        chromium.cdp("Emulation.setScriptExecutionDisabled", value=False)


def press(chromium: Browser, key: str, code: int, **text: str) -> None:
    pressed = {"key": key, "code": key, "windowsVirtualKeyCode": code}
    chromium.cdp("Input.dispatchKeyEvent", type="keyDown", **pressed, **text)
    chromium.cdp("Input.dispatchKeyEvent", type="keyUp", **pressed)


def tab_reaches(chromium: Browser, selector: str) -> bool:
    """Press Tab unless such an element has the focus: a key that comes before the page is lost."""
    if outer(chromium, f"{selector}:focus"):
        return True
    press(chromium, "Tab", 9)
    return False


def outer(chromium: Browser, selector: str) -> str:
    """The first such element, read without a script of the page, "" if there is none."""
    root = chromium.cdp("DOM.getDocument")["root"]["nodeId"]
    node = chromium.cdp("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
    html: str = chromium.cdp("DOM.getOuterHTML", nodeId=node)["outerHTML"] if node else ""
    return html


def test_the_focus_is_visible(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["showcase"])
    for _ in range(2):
        chromium.run("window.focused = document.activeElement;")
        chromium.wait_until(lambda: tab_moves(chromium))
        outline = chromium.run(
            "const style = getComputedStyle(document.activeElement);"
            "return [style.outlineStyle, parseFloat(style.outlineWidth)]"
        )
        assert outline == ["solid", 3]


def tab_moves(chromium: Browser) -> bool:
    """Press Tab unless the focus moved: a key that comes before the page is lost."""
    if chromium.run("return document.activeElement !== window.focused;"):
        return True
    press(chromium, "Tab", 9)
    return False


def test_a_printed_page_shows_details_of_problems_only(
    chromium: Browser, pages: dict[str, Path]
) -> None:
    chromium.open(pages["showcase"], media="print")
    shown = chromium.run(
        "return [...document.querySelectorAll('details .inside')].map(each => ["
        "each.parentElement.className, each.checkVisibility({contentVisibilityAuto: true}) && "
        "each.getBoundingClientRect().height > 0])"
    )
    assert {css for css, _ in shown} == {"why", "family", ""}
    assert all(visible == (css == "why") for css, visible in shown)
    assert chromium.run("return document.querySelector('button').checkVisibility()") is False
    chromium.open(pages["showcase"])
    assert chromium.cdp("Page.printToPDF")["data"]


def test_hostile_text_is_text(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["hostile"])
    assert chromium.run("return [document.images.length, document.scripts.length]") == [0, 1]
    text: Any = chromium.run("return document.querySelector('ol.todo li p').textContent")
    assert text.startswith(HOSTILE[:40])
    assert "\\x00\\x1b[31m\\u202e" in text


def test_a_button_copies_the_commands_of_a_fix(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["showcase"])
    blocks = chromium.run("return document.querySelectorAll('pre.copy').length")
    assert blocks == chromium.run("return document.querySelectorAll('button').length") > 0
    for permission in ("clipboardReadWrite", "clipboardSanitizedWrite"):
        chromium.cdp("Browser.grantPermissions", permissions=[permission])
    chromium.run("document.querySelector('button').click()")
    label = "return document.querySelector('button').textContent"
    chromium.wait_until(lambda: chromium.run(label) != "Copy")
    copied, command = chromium.run(
        "return [getSelection().toString(), document.querySelector('pre.copy').textContent]"
    )
    assert chromium.run(label) == "Copied" or copied.strip() == command.strip()


def test_the_page_has_every_section(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["showcase"])
    titles = chromium.run("return [...document.querySelectorAll('h2')].map(each => each.id)")
    assert titles == [
        "todo",
        "settings",
        "memory",
        "attention",
        "dtypes",
        "checks",
        "timings",
    ]
    cells = chromium.run(
        "return [...document.querySelectorAll('table.trial td')].map(each => each.textContent)"
    )
    assert {"refuses", "ran, 0.34%", "default: not finite: dq"} <= set(cells)
    widths = chromium.run(
        "return [...document.querySelectorAll('#memory ~ figure .stack rect')].map("
        "each => each.getBoundingClientRect().width)"
    )
    assert len(widths) == 4
    assert min(widths) > 5
