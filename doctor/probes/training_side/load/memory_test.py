"""Patterns written to nearly all of a GPU's free memory, and read back.

All of it is written before anything is read, so that caches hold little of it and an address that
stands for two places shows. Two patterns derive each word from its place, the second with every bit
inverted, so that each bit is 0 once and 1 once and no two places hold the same word.
"""

from __future__ import annotations

import math
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from ... import wire
from .brake import Brake

SHARE = 0.9
"""Of the free memory: the rest is for the driver, and for processes that start meanwhile."""
PART = 2**24
"""Words of 64 bits in one part, 128 MiB."""
LEAST = 2**12
"""Words in a part where little memory is free."""
WORD = 8
BESIDE = 3
"""Parts that comparing takes beside those that are tested."""
MIX = 0x9E3779B97F4A7C15
"""The golden ratio in 64 bits: neighbouring places get words that differ in most bits."""
PATTERNS: Tuple[Tuple[int, int], ...] = (
    (MIX, 0),
    (MIX, -1),
    (0, 0x5555555555555555),
    (0, ~0x5555555555555555),
)
"""Factor of the place, and bits that are inverted afterwards."""


def signed(value: int) -> int:
    """A word as torch's int64 has it."""
    return (value + 2**63) % 2**64 - 2**63


class Memory:
    """Parts of the memory of one device, and what is written to them."""

    def __init__(self, device: torch.device, free: int, part: int = PART) -> None:
        """Take the share of `free` bytes, as far as the device gives it."""
        room = int(free * SHARE) // WORD
        while part > LEAST and room < 2 * BESIDE * part:
            part //= 2

        def empty() -> torch.Tensor:
            return torch.empty(part, dtype=torch.int64, device=device)

        self.part, self._device = part, device
        self._base, self._expected = empty(), empty()
        self.parts: List[torch.Tensor] = []
        for _ in range(max(0, room // part - BESIDE)):
            try:
                self.parts.append(empty())
            except torch.cuda.OutOfMemoryError:
                break

    @property
    def bytes(self) -> int:
        return len(self.parts) * self.part * WORD

    def begin(self, pattern: Tuple[int, int]) -> None:
        """Prepare the words of one part."""
        factor = signed(pattern[0])
        torch.mul(torch.arange(self.part, device=self._device), factor, out=self._base)

    def words(self, number: int, pattern: Tuple[int, int], out: torch.Tensor) -> torch.Tensor:
        """Write the words of a part to `out`."""
        factor, inverted = pattern
        key = signed((factor * self.part * (number + 1)) ^ inverted)
        return torch.bitwise_xor(self._base, key, out=out)

    def write(self, pattern: Tuple[int, int]) -> Iterator[None]:
        for number, part in enumerate(self.parts):
            self.words(number, pattern, part)
            yield

    def compare(self, pattern: Tuple[int, int]) -> Iterator[torch.Tensor]:
        """The number of wrong words in each part, still on the device."""
        for number, part in enumerate(self.parts):
            yield torch.ne(part, self.words(number, pattern, self._expected)).sum()

    def again(self, number: int, pattern: Tuple[int, int]) -> Tuple[int, str]:
        """Read a part once more: wrong words, and the first one."""
        expected = self.words(number, pattern, self._expected)
        places = torch.ne(self.parts[number], expected).nonzero().flatten()
        if not len(places):
            return 0, ""
        place = int(places[0])
        written, read = (int(each[place]) % 2**64 for each in (expected, self.parts[number]))
        at = (number * self.part + place) * WORD
        text = "byte %d of the memory under test: 0x%016x written, 0x%016x read"
        return len(places), text % (at, written, read)


class Deadline:
    """Ends the test after some seconds, and where heat or power makes the GPU brake."""

    def __init__(self, device: torch.device, within: float, uuid: Optional[str] = None) -> None:
        self._device, self._within, self._brake = device, within, Brake(uuid)
        self._end = time.monotonic() + within

    def reason(self) -> str:
        """Why it ends now, "" if it goes on. Waits for the device."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        if time.monotonic() > self._end:
            return "%d s had passed" % math.ceil(self._within)
        brake = self._brake.reason()
        return brake and "%s was on" % brake


EVERY = 16
"""Parts between two looks at the deadline."""


def run(device: torch.device, within: float, uuid: Optional[str] = None) -> Dict[str, Any]:
    """The fields of `doctor.facts.load.MemoryTest`. Raises what the device raises."""
    started = time.perf_counter()
    torch.cuda.empty_cache()
    free = int(torch.cuda.mem_get_info(device)[0])
    with wire.stage("allocation"), torch.no_grad():
        memory = Memory(device, free)
    with torch.no_grad():
        result = tried(memory, Deadline(device, within, uuid))
    del memory
    torch.cuda.empty_cache()
    return {**result, "free": free, "seconds": time.perf_counter() - started}


def tried(memory: Memory, deadline: Deadline) -> Dict[str, Any]:
    """Every pattern, until a word is wrong or the deadline has passed."""
    result: Dict[str, Any] = {"patterns": 0, "tried": 0}
    for pattern in PATTERNS:
        memory.begin(pattern)
        with wire.stage("writing"):
            for number, _ in enumerate(memory.write(pattern)):
                reason = deadline.reason() if number % EVERY == EVERY - 1 else ""
                if reason:
                    return {**result, "cut_short": reason}
        counts: List[torch.Tensor] = []
        with wire.stage("reading back"):
            for count in memory.compare(pattern):
                counts.append(count)
                reason = deadline.reason() if len(counts) % EVERY == 0 else ""
                if reason:
                    break
            wrong = [int(count) for count in counts]
        result["wrong"] = sum(wrong)
        result["tried"] = max(result["tried"], len(counts) * memory.part * WORD)
        if result["wrong"]:
            first = next(number for number, count in enumerate(wrong) if count)
            with wire.stage("reading once more"):
                result["wrong_again"], result["example"] = memory.again(first, pattern)
            return result
        if len(counts) < len(memory.parts):
            return {**result, "cut_short": reason}
        result["patterns"] += 1
    return result
