"""What is written to the memory of a GPU is read back unchanged."""

from __future__ import annotations

from doctor._util.units import gib
from doctor.checks.gpu.remedies import RETURN
from doctor.facts.load import MemoryTest
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown
from doctor.judge.combine import worst


def keeps_values(memory_tests: tuple[MemoryTest, ...]) -> Verdict:
    return worst(*(_keeps_values(test) for test in memory_tests))


def _keeps_values(test: MemoryTest) -> Verdict:
    label = f"GPU {test.device.rpartition(':')[2]} ({test.name}), {test.uuid or 'UUID unknown'}"
    if test.unsuited:
        return skip(f"{label}: not tested, {test.unsuited}")
    tried = f"{gib(test.tried or 0)} of {gib(test.free or 0)} that were free"
    if test.wrong:
        again = (
            f"; {test.wrong_again:,} of a part when it was read once more"
            if test.wrong_again is not None
            else ""
        )
        summary = f"{label}: {test.wrong:,} words of {tried} were read back with another value"
        return fail(f"{summary} ({test.example}){again}; 0 allowed")
    if not test.ended.ok:
        verbs = {"error": "", "signal": "crashed: ", "timeout": "hung: ", "budget": "cut off: "}
        return unknown(f"{label}: {verbs[test.ended.how]}{test.ended.detail}")
    cut = f"; ended early: {test.cut_short}" if test.cut_short else ""
    if test.wrong is None or not test.tried:
        return unknown(f"{label}: nothing was read back{cut}")
    patterns = "1 pattern" if test.patterns == 1 else f"{test.patterns} patterns"
    return ok(f"{label}: {tried} kept {patterns}{cut}", seconds=test.seconds)


KEEPS_VALUES = Check(
    code="GPU011",
    slug="memory-keeps-values",
    title="The GPU's memory returns what was written to it",
    why="A board with a damaged or exchanged memory chip trains on wrong numbers, and without ECC "
    "no counter shows it. With --memory-test every word of 90 % of the free memory gets a value "
    "of its place, the inverse, and alternating bits. All is written before any is read, so an "
    "address that stands for two places shows.",
    passes=(
        "every word was read back with its value, in every pattern that was tried; the summary "
        "says how much memory that was",
        "a MIG slice, a virtual GPU, memory that the host shares, WSL and MPS are skipped",
    ),
    fails=("a word was read back with another value",),
    fix=f"{RETURN}Your own: remove any overclocking of the memory and test again, then replace the "
    "board.",
    limits="that the last tenth of the memory is intact, or that it stays so when it is hot.",
    owner=Owner.MACHINE,
    judge=keeps_values,
    returns=True,
    required="memory_test",
    commands=("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",),
    sources=("dcgm-memtest", "gpu-burn"),
    after=("DRV001", "TOR003"),
    targets=("nvidia",),
)

CHECKS = (KEEPS_VALUES,)
