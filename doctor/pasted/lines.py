"""A pasted text as lines without what mail, chats, launchers and HTML add to them."""

from __future__ import annotations

import html
import re

LONGEST = 2000
"""Characters of a line; no line of a report is longer."""

MOST = 200_000
"""Lines that are read."""

ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
PREFIX = re.compile(
    r"(?: {0,8}>\s?|#{1,2} {0,3}(?=[|+])|\[rank\d{1,6}\]:? ?|[a-z][\w.-]{0,40}-\d{1,3}\s+\| |"
    r"\[(?:[a-z]{1,12} )?\d{4}-\d\d-\d\d[T ][\d:.,+Z-]{5,24}\] ?(?:\[[\w.() -]{1,40}\] ?){0,3}|"
    r"\d{4}-\d\d-\d\dT[\d:.,]{5,20}(?:Z|[+-]\d\d:?\d\d) |```(?=\S*[ .])){1,8}"
)
"""Quotation marks, comments around a table, ranks, containers, timestamps of a CI, and the fence
before a line's text."""
STAMPED = re.compile(r"\[ {0,8}(?:\d{1,9}\.\d{1,6}|\w{3} \w{3} [\d: ]{13,16})\] \S|"
                     r"\w{3} [ \d]\d \d\d:\d\d:\d\d \S+ ")  # fmt: skip
"""How a line of a kernel log begins."""
NARROWEST = 60
"""Columns of a terminal."""
ENCODED = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}")
"""A line of a file in base64: nvidia-bug-report.sh appends megabytes of them to its report."""
COLLECTED = re.compile(
    r"^[^\n]*PyTorch version: \S{1,40} {1,400}Is debug build: \w+ [^\n]*$", re.MULTILINE
)
"""A report of collect_env whose line breaks were lost."""
ITEM = re.compile(
    r" (?=(?:PyTorch|GCC|Clang|CMake|Libc|Python|cuDNN|Nvidia driver|(?:CUDA|HIP|MIOpen) runtime) "
    r"version: |Is (?:debug build|CUDA available|XNNPACK available): |(?:CUDA|ROCM) used to build "
    r"PyTorch: |OS: |Python platform: |CUDA_MODULE_LOADING set to: |GPU models and configuration: |"
    r"GPU \d{1,3}: |CPU: |Versions of relevant libraries: |\[(?:pip3|conda)\] )"
)
TITLE = re.compile(r"\s{0,400}#{1,3} (?=\S)")
"""Before the first line of a text in Markdown, which is a thread's title."""
BULLET = re.compile(r"\s*[-*•] (?=[`*\[\w])")


def clean(text: str) -> list[str]:
    """The lines, without escape sequences, quotation marks, bullets and ranks of launchers, and
    without those of encoded files."""
    text = COLLECTED.sub(lambda match: ITEM.sub("\n", match[0]), text)
    if match := TITLE.match(text):
        text = text[match.end() :]
    lines = re.split(r"\r\n|[\n\r\x0b\x0c]", text, maxsplit=MOST)[:MOST]
    return _unbroken([_clean(line[:LONGEST]) for line in lines if not ENCODED.fullmatch(line)])


def _unbroken(lines: list[str]) -> list[str]:
    """Lines of a kernel log that a terminal broke at its width in one piece: all broken ones have
    that length, at least two, and what follows has no time."""
    stamped = [bool(STAMPED.match(line)) for line in lines]
    lengths = [len(line) for line, is_one in zip(lines, stamped, strict=True) if is_one]
    width = max(lengths, default=0)
    is_broken = width >= NARROWEST and sum(each >= width - 1 for each in lengths) > 1
    joined: list[str] = []
    goes_on = False
    for line, is_one in zip(lines, stamped, strict=True):
        if goes_on and line and not is_one and len(line) < width:
            joined[-1] = joined[-1].ljust(width) + line
            goes_on = False
            continue
        joined.append(line)
        goes_on = is_broken and is_one and width - 1 <= len(line)
    return joined


def _clean(line: str) -> str:
    line = (
        ESCAPE.sub("", line)
        .replace("\xa0", " ")
        .replace("\uff1a", ": ")
        .replace("\t", "    ")
        .rstrip()
    )
    if "&" in line:
        line = html.unescape(line)
    if match := PREFIX.match(line):
        line = line[match.end() :]
    if match := BULLET.match(line):
        line = line[match.end() :]
    return line
