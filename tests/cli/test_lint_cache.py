"""What a cache of lint results may remove."""

from __future__ import annotations

import os
from pathlib import Path

from doctor.cli.lint.cache import LintCache


def test_a_trim_removes_old_entries_and_nothing_else(tmp_path: Path) -> None:
    foreign = [tmp_path / "thesis.tex", tmp_path / "doctor-lint" / "notes.txt"]
    folder = tmp_path / "doctor-lint" / ("f" * 64)
    folder.mkdir(parents=True)
    for path in foreign:
        path.write_text("mine")
    for path in (*foreign, folder):
        os.utime(path, (0, 0))
    cache = LintCache(str(tmp_path))
    keys = [cache.key("train.py", bytes([n])) for n in range(4)]
    for age, key in enumerate(keys, 1):
        cache.put(key, [], "it trains nothing")
        os.utime(cache.directory / key, (age, age))
    left = cache.directory / f".{keys[0]}.12345"
    left.touch()
    os.utime(left, (0, 0))
    cache.trim(limit=6)
    assert left.exists()
    cache.trim(limit=5)
    assert not left.exists()
    assert [cache.get(key) for key in keys] == [None, *[([], "it trains nothing")] * 3]
    assert folder.is_dir()
    assert all(path.read_text() == "mine" for path in foreign)
