"""Remote files and directories: looked up and fetched once, never read as a whole."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from doctor.checkpoint.errors import CheckpointError

FIRST = 128 * 1024
"""Read at once of a file: most headers are shorter."""

MOST = 256 << 20
"""Bytes that are ever read of one file remote; the largest legal header has 100 million."""

MOST_CACHED = 64 << 20
"""Bytes that were fetched ahead and are kept."""

CLOSE_GAP = 16 * 1024
"""Bytes between two ranges that are cheaper to fetch than a request of its own."""

LONGEST_MERGED = 1 << 20
"""Bytes of ranges that are fetched as one."""

CONCURRENT_REQUESTS = 16
"""Requests that are under way at the same time."""

NAMES = (
    ".metadata", "adapter_config.json", "adapter_model.bin", "adapter_model.safetensors", "ckpt.pt",
    "config.json", "consolidated.00.pth", "consolidated.safetensors",
    "diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.safetensors.index.json",
    "generation_config.json", "latest", "latest_checkpointed_iteration.txt", "model.safetensors",
    "model.safetensors.index.json", "optimizer.bin", "optimizer.pt", "params.json",
    "pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model_fsdp.bin", "scheduler.pt",
    "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "trainer_state.json",
    "training_args.bin",
)  # fmt: skip
"""Names to look up where a server lists no directories."""

T = TypeVar("T")
U = TypeVar("U")

Fetch = Callable[[int, int], bytes]
"""The bytes from `begin` to before `end`. Raises CheckpointError."""


class Store(Protocol):
    """What a kind of address has to offer; every call may raise CheckpointError."""

    def names(self, path: str) -> list[str] | None:
        """What is in a directory; the names of directories end with a slash. None: no listing."""
        ...

    def find(self, path: str) -> RemoteEntry:
        """A file's size and how its bytes are fetched, from here on without changes."""
        ...

    def is_directory(self, path: str) -> bool:
        """Whether the path is a directory; a file or nothing is none."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """An existing file."""

    size: int
    fetch: Fetch


def run_concurrently(work: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """`work` on every item, several at a time; answers in the order of the items."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
        return list(pool.map(work, items))


def coalesce(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same ranges in order, those that lie close together as one."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if merged and begin - merged[-1][1] <= CLOSE_GAP and end - merged[-1][0] <= LONGEST_MERGED:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


@dataclass
class RemoteFile:
    """A remote file with a cache of the ranges that were prefetched."""

    size: int
    fetch: Fetch
    fetched: int = 0
    cached: list[tuple[int, bytes]] = field(default_factory=list)
    """Where they begin, sorted, and their bytes."""

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes at `offset`; fewer where the file ends. Raises CheckpointError."""
        end = min(offset + size, self.size)
        if offset >= end:
            return b""
        if (cached := self._lookup(offset, end)) is not None:
            return cached
        if end <= FIRST and not (self.cached and self.cached[0][0] == 0):
            first = self._get(0, min(FIRST, self.size))
            bisect.insort(self.cached, (0, first))
            return first[offset:end]
        return self._get(offset, end)

    def prefetch(self, ranges: list[tuple[int, int]]) -> None:
        """Fetch (begin, end) ranges that will be read, several at a time, as far as possible."""
        spans = ((begin, min(end, self.size)) for begin, end in ranges)
        lacking = [
            (begin, end)
            for begin, end in spans
            if 0 <= begin < end and self._lookup(begin, end) is None
        ]
        affordable: list[tuple[int, int]] = []
        room = MOST_CACHED - sum(len(data) for _, data in self.cached)
        for begin, end in coalesce(lacking):
            room -= end - begin
            if room >= 0:
                affordable.append((begin, end))
        run_concurrently(self._cache, affordable)

    def _cache(self, span: tuple[int, int]) -> None:
        with contextlib.suppress(CheckpointError):  # raised again when it is read
            data = self._get(*span)
            bisect.insort(self.cached, (span[0], data))

    def _lookup(self, begin: int, end: int) -> bytes | None:
        """The range, where one that was kept and begins last before it holds it."""
        number = bisect.bisect_right(self.cached, begin, key=lambda chunk: chunk[0])
        for start, data in (*self.cached[max(number - 1, 0) : number], *self.cached[:1]):
            if start <= begin and end - start <= len(data):
                return data[begin - start : end - start]
        return None

    def _get(self, begin: int, end: int) -> bytes:
        self.fetched += end - begin
        if self.fetched > MOST:
            text = f"needs more than {MOST >> 20} MiB of it to be read; download it first"
            raise CheckpointError("not-inspectable", text)
        data = self.fetch(begin, end)
        if len(data) != end - begin:
            text = f"cannot be read: {len(data):,} of {end - begin:,} bytes came"
            raise CheckpointError("not-inspectable", text)
        return data


@dataclass
class RemoteDirectory:
    """A remote directory. Each file is looked up once."""

    address: str
    store: Store
    path: str
    _entries: dict[str, RemoteEntry | CheckpointError] = field(default_factory=dict)

    def names(self) -> list[str]:
        """What is directly inside, sorted; without a listing, the usual names that exist."""
        listed = self.store.names(self.path)
        if listed is not None:
            return listed
        self.prefetch(list(NAMES))
        present = [name for name in NAMES if isinstance(self._entries[name], RemoteEntry)]
        failures = [error for error in map(self._find, NAMES) if isinstance(error, CheckpointError)]
        if not present and (errors := [error for error in failures if error.kind != "missing"]):
            raise errors[0]
        return present

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[RemoteFile]:
        """One file. Raises CheckpointError."""
        entry = self._find(name)
        if isinstance(entry, CheckpointError):
            raise entry
        yield RemoteFile(entry.size, entry.fetch)

    def exists(self, name: str) -> bool:
        """Whether something has that name; True where access is denied."""
        entry = self._find(name)
        return not (isinstance(entry, CheckpointError) and entry.kind == "missing")

    def inside(self, name: str) -> RemoteDirectory:
        address = f"{self.address.rstrip('/')}/{name}"
        return RemoteDirectory(address, self.store, f"{self.path}/{name.rstrip('/')}")

    def prefetch(self, names: list[str]) -> None:
        """Find files that will be opened, several at a time."""
        run_concurrently(self._find, names)

    def _find(self, name: str) -> RemoteEntry | CheckpointError:
        if name not in self._entries:
            try:
                self._entries[name] = self.store.find(f"{self.path}/{name}")
            except CheckpointError as error:
                self._entries[name] = error
        return self._entries[name]
