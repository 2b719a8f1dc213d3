"""Links between the documents: the file exists, and the anchor is one of its headings."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from paths import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/*.txt")])
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")

pytestmark = pytest.mark.skipif(
    not (ROOT / "docs").exists(), reason="the documents are not at hand"
)


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors that GitHub gives the headings of a document, and those written in HTML."""
    text = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
    names: list[str] = []
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("\\", ""))
        name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        names.append(f"{name}-{names.count(name)}" if name in names else name)
    return frozenset([*names, *re.findall(r'<a id="([^"]+)"', text)])


def broken(path: Path, text: str) -> list[str]:
    """The links of a text that lead nowhere; addresses of other hosts are not asked."""
    found = []
    for link in LINK.findall(CODE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        is_document = target.suffix == ".md" and target.exists()
        if not target.exists() or (anchor and is_document and anchor not in anchors(target)):
            found.append(link)
    return found


def test_no_link_is_broken() -> None:
    assert len(DOCUMENTS) > 200
    texts = {path: path.read_text("utf-8") for path in DOCUMENTS}
    assert [(str(path), link) for path, text in texts.items() for link in broken(path, text)] == []


def test_a_broken_link_is_seen() -> None:
    text = "[a](nothing.md) [b](run.md#nothing) [c](run.md) `[d](code.md)` [e](#nothing)"
    assert broken(ROOT / "docs/README.md", text) == ["nothing.md", "run.md#nothing", "#nothing"]
