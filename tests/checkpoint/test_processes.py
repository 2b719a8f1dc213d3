"""Items that several processes look at: all are, once, and a process that dies is named."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doctor.checkpoint.analysis.processes import look_at_all
from doctor.checkpoint.io.files import LocalDirectory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")


class Seen(msgspec.Struct):
    item: int
    pid: int
    text: str = ""


def look(item: int, files: Sequence[Any]) -> Seen:
    assert len(files) == 1
    return Seen(item, os.getpid(), "x" * (item % 7) * 50_000)


def looked(count: int, processes: int, directory: Path, look: Any = look, **more: Any) -> list[Any]:
    directories = [LocalDirectory(directory)]
    return sorted(
        look_at_all(range(count), directories, look, Seen, processes, **more),
        key=lambda pair: pair[0],
    )


@pytest.mark.parametrize(("count", "processes"), [(0, 4), (1, 4), (300, 1), (300, 3), (30_000, 2)])
def test_every_item_is_looked_at_once(count: int, processes: int, tmp_path: Path) -> None:
    small = look if count < 1000 else lambda item, files: Seen(item, os.getpid())
    progress: list[int] = []
    results = looked(
        count, processes, tmp_path, small, progress=lambda done, of: progress.append(done)
    )
    assert [(number, seen.item) for number, seen in results] == [(n, n) for n in range(count)]
    assert len({seen.pid for _, seen in results}) <= processes
    assert progress == list(range(1, count + 1))
    assert (processes == 1) == any(seen.pid == os.getpid() for _, seen in results) or not count


def test_a_process_that_dies_is_named_for_what_it_leaves(tmp_path: Path) -> None:
    def dies(item: int, files: Sequence[Any]) -> Seen:
        if item == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        if item == 7:
            raise ValueError(item)
        return look(item, files)

    results = dict(looked(40, 3, tmp_path, dies))  # 5 is the third one's, 7 the second one's
    lost = {number for number, seen in results.items() if isinstance(seen, str)}
    assert lost == {*range(5, 40, 3), *range(7, 40, 3)}
    assert all("code -9" in results[number] for number in range(5, 40, 3))
    assert all("code 1" in results[number] for number in range(7, 40, 3))


def test_all_end_with_who_reads_no_further(tmp_path: Path) -> None:
    looking = look_at_all(range(99), [LocalDirectory(tmp_path)], look, Seen, 3)
    _, seen = next(iter(looking))
    assert isinstance(seen, Seen)
    looking.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(seen.pid, 0)
