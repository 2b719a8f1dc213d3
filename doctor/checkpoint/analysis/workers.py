"""Tensors of two or more models, looked at by several threads with open files of their own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from doctor._util.processors import usable_processors
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.open_files import OpenFiles

Item = TypeVar("Item")

Progress = Callable[[int, int], None]
"""Called with the items done and the items in all, from one thread at a time."""


@contextlib.contextmanager
def opened(directories: Sequence[Directory]) -> Iterator[list[OpenFiles]]:
    """Open files of each directory."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(OpenFiles(each)) for each in directories]


def work(
    items: Sequence[Item],
    directories: Sequence[Directory],
    look: Callable[[Item, Sequence[OpenFiles]], None],
    threads: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Look at every item once; `look` gets the thread's open files, one for each directory.

    What it raises is raised here.
    """
    pending, lock, done = iter(items), threading.Lock(), 0

    def take() -> None:
        nonlocal done
        with opened(directories) as files:
            while True:
                with lock:
                    item = next(pending, None)
                if item is None:
                    return
                look(item, files)
                with lock:
                    done += 1
                    if progress is not None:
                        progress(done, len(items))

    count = min(threads or usable_processors(), max(len(items), 1))
    with ThreadPoolExecutor(count) as pool:
        for worker in [pool.submit(take) for _ in range(count)]:
            worker.result()
