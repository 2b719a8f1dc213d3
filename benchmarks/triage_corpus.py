"""Triage over the corpus of real log excerpts: hits and misses per class.

    python benchmarks/triage_corpus.py [--misses]

A row is a hit if the first finding that fails or warns has one of the expected classes; harmless
and clean rows are hits if none fails. "same line" counts the hits that name the expected line.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from log_corpus import is_named, problems, rows


def main() -> None:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    misses: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for row in rows():
            found = problems(row, Path(name))
            slug = found[0].check.slug if found else "nothing"
            line = found[0].places[0].line if found and found[0].places else 0
            is_hit, is_line = is_named(row, found), line == int(row["first_line"])
            count = counts[row["expected_class"].split(" ")[0] or row["kind"]]
            count[0] += 1
            count[1] += is_hit
            count[2] += is_hit and is_line
            if not is_hit or (not is_line and row["kind"] == "cause"):
                label = f"{row['expected_class'] or row['kind']}:{row['first_line']}"
                state = "line" if is_hit else "MISS"
                misses.append(f"{state} {row['source']}: expected {label}, is {slug}:{line}")
    print(f"{'class':32} rows  hits  same line")
    for label, (total, hits, lines) in sorted(counts.items()):
        print(f"{label:32} {total:4} {hits:5} {lines:10}")
    total, hits, lines = (sum(column) for column in zip(*counts.values(), strict=True))
    print(f"{'all':32} {total:4} {hits:5} {lines:10}")
    if "--misses" in sys.argv:
        print("\n".join(misses))


if __name__ == "__main__":
    main()
