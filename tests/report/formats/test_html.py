"""The HTML page as a parser reads it; tests/report/test_html.py opens pages in a browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from reports import HOSTILE, hostile

from doctor.report.formats.html import page as html


class Tags(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))


def test_a_page_of_hostile_text_is_ascii_and_asks_for_nothing() -> None:
    page = html.render(hostile())
    assert page.isascii()
    script = (Path(html.__file__).parent / "copy.js").read_text("utf-8")
    assert page.count(f"<script>{script}</script>") == 1
    page = page.replace(f"<script>{script}</script>", "")
    assert HOSTILE[:30] not in page
    assert not re.search(r"url\(|@import", page)
    for tag, attributes in Tags(page).elements:
        assert tag not in ("script", "img", "link", "iframe", "object", "form", "base")
        assert not any(name.startswith("on") or name in ("src", "style") for name in attributes)
        if "href" in attributes:
            assert (attributes["href"] or "").startswith(("https://", "#"))
            assert "evil" not in (attributes["href"] or "")
