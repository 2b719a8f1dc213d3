"""Markdown as a parser reads it: nothing that was read is live."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from reports import about, every_report, finding, hostile, report

from doctor.judge.check import Status
from doctor.report.formats import markdown


def test_untrusted_text_is_never_live_in_markdown() -> None:
    text = markdown.render(hostile())
    outside = re.sub(r"(?ms)^(`{3,})sh\n.*?^\1$", "", text)
    assert "@octocat" not in outside
    assert "evil.example" in outside
    assert not re.search(r"(?i)(https?:/|\bwww\.)(/?evil|/evil)|#1\b", outside)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    links = {str(child.attrs["href"]) for child in inline if child.type == "link_open"}
    assert links
    assert all(link.startswith("https://") and "evil" not in link for link in links)
    raw = {token.content.strip() for token in tokens if token.type == "html_block"}
    assert {line for block in raw for line in block.splitlines()} == {
        "<details><summary>All 1 checks</summary>".replace("1", str(len(hostile().findings))),
        "</details>",
    }
    assert {c.content for c in inline if c.type == "html_inline"} <= {"<br>"}


def test_a_markdown_row_is_a_check() -> None:
    for name, judged in every_report().items():
        with about(name):
            tokens = MarkdownIt("commonmark").enable("table").parse(markdown.render(judged))
            rows = sum(token.type == "tr_open" for token in tokens)
            loud = [f for f in judged.findings if f.is_problem or f.status is Status.UNKNOWN]
            assert rows == len(judged.findings) + 1 + (len(loud) + 1 if loud else 0)


def test_a_fence_is_longer_than_what_it_holds() -> None:
    judged = report(finding("NUM001", Status.FAIL, commands=("echo ````", "\n```\n# x")))
    (fence,) = [
        token
        for token in MarkdownIt("commonmark").parse(markdown.render(judged))
        if token.type == "fence"
    ]
    assert fence.content == "echo ````\n``` # x\n"
