"""Figures of the documents that count what is in the repository."""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paths import ROOT

CORPUS = ROOT / "tests/corpus"
PIPELINES = ROOT / "benchmarks/data_pipelines/labels.csv"


def pages() -> dict[Path, str]:
    """Path -> the page with the figures of today. Raises ValueError for a sentence that is gone."""
    texts: dict[Path, str] = {}
    for name, sentence, count in FIGURES:
        path = ROOT / name
        texts[path] = _with(texts.get(path) or path.read_text("utf-8"), sentence, count())
    return texts


def _with(text: str, sentence: str, counts: list[int]) -> str:
    match = re.search(sentence.replace(" ", r"\s+"), text, re.DOTALL)
    if match is None:
        raise ValueError(f"tests/support/figures.py: no sentence like {sentence!r}")
    for group, count in reversed([*enumerate(counts, 1)]):
        text = f"{text[: match.start(group)]}{count:,}{text[match.end(group) :]}"
    return text


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _scripts(name: str, key: str = "script") -> list[dict[str, Any]]:
    return list(tomllib.loads((CORPUS / f"script_{name}.toml").read_text("utf-8"))[key])


def _labels() -> list[int]:
    every = _rows(CORPUS / "scripts.csv")
    return [len(every), len({(each["repository"], each["path"]) for each in every})]


def _mistakes() -> list[int]:
    files = ("mistakes", "mistakes_learned", "mistakes_held_out", "mistakes_fresh")
    planted = [each for name in files for each in _scripts(name) if not each.get("healthy")]
    decided = [each for each in planted if each.get("decidable", True)]
    found = [each for each in decided if not each.get("missed")]
    return [len(planted), len(decided), len(found), len(decided)]


def _blind() -> list[int]:
    every = _scripts("mistakes_blind")
    planted = [each for each in every if not each.get("healthy")]
    found = [each for each in planted if not each.get("missed")]
    return [len(planted), len(found), len(every) - len(planted)]


def _variants() -> list[int]:
    return [len(_scripts("variants", key)) for key in ("training", "mistake")]


def _pipelines() -> list[int]:
    if not PIPELINES.exists():  # a copy without the benchmarks
        return []
    expected = [row["expected"] for row in _rows(PIPELINES)]
    healthy = expected.count("-")
    return [len(expected), healthy, len(expected) - healthy]


FIGURES: tuple[tuple[str, str, Callable[[], list[int]]], ...] = (
    ("docs/lint.md", r"has ([\d,]+) labels of ([\d,]+) public files", _labels),
    (
        "docs/lint.md",
        r"has (\d+) mistakes that .*? decides (\d+) of them.*? find (\d+) of the (\d+) now",
        _mistakes,
    ),
    (
        "docs/lint.md",
        r"blind set of (\d+) more.*?: \d+ were found at first sight, (\d+) are now.*? its (\d+)",
        _blind,
    ),
    ("docs/lint.md", r"has (\d+) trainings and (\d+) one-line mistakes", _variants),
    ("docs/data.md", r"runs (\d+) pipelines.*? 0 of (\d+) \(a rate.*? of (\d+) \|", _pipelines),
)
"""Page, a sentence with groups for its figures, what they count."""
