"""GPUs that work, with a slow link or a low clock: on an idle GPU both save power."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from doctor.facts.machine import Reported
from doctor.pasted.smi_gpus import Tree, clock_reasons, first_of, flat

BUSY, FULL = 50, 80
"""Percent of utilization at which a link, and a clock, no longer save power. Our own numbers."""
SLOW_GENERATION, FAST_GENERATION = 2, 4
"""As GPU005 judges a link under load."""
LOW_CLOCK = 0.65
"""Share of the highest clock. GPUs at their power limit run at three quarters. Our own number."""
SET = 0x2 | 0x10 | 0x100
"""Reasons of a clock that somebody chose: application clocks, sync boost, a display."""
PLACES = {
    "use": ("utilization/gpu", "utilization/gpu_util"),
    "generation": ("pcie_generation/current", "pcie_gen/current_link_gen", "pcie/link/gen/current",
                   "pcie/link/gen/gpucurrent"),
    "supported": ("pcie_generation/max", "pcie_gen/max_link_gen", "pcie/link/gen/max",
                  "pcie/link/gen/gpumax"),
    "host": ("pcie_generation/host_max", "pcie_gen/max_host_link_gen", "pcie/link/gen/hostmax"),
    "clock": ("clocks/sm", "clocks/sm_clock", "clocks/current/sm"),
    "most": ("max_clocks/sm", "max_clocks/sm_clock", "clocks/max/sm"),
}  # fmt: skip


def slow_of(trees: Sequence[tuple[str, Tree]], first: int = 0) -> Iterator[Reported]:
    """What is slow on which GPU; `first`: the number of the first one."""
    every = [flat(tree) for _, tree in trees]
    read = [{name: _number(first_of(leaves, places)) or 0 for name, places in PLACES.items()}
            for leaves in every]  # fmt: skip
    fastest = max((values["generation"] for values in read), default=0)
    for number, (leaves, values) in enumerate(zip(every, read, strict=True), first):
        label = f"GPU {leaves.get('index', number)}"
        # A virtual machine may report a placeholder, and no generation of the host.
        if fastest > SLOW_GENERATION or values["host"]:
            yield from _slow_link(label, values)
        yield from _low_clock(label, values, clock_reasons(leaves))


def _slow_link(label: str, values: Mapping[str, int]) -> Iterator[Reported]:
    generation, supported, use = values["generation"], values["supported"], values["use"]
    if use >= BUSY and 0 < generation <= SLOW_GENERATION and supported >= FAST_GENERATION:
        text = f"{label}: PCIe generation {generation} of {supported} at {use} % utilization"
        yield Reported(cause="pcie-generation-low", line=text)


def _low_clock(label: str, values: Mapping[str, int], mask: int | None) -> Iterator[Reported]:
    clock, most, use = values["clock"], values["most"], values["use"]
    is_set = mask is not None and not mask & ~SET
    if use >= FULL and is_set and 0 < clock < LOW_CLOCK * most:
        at = f"at {use} % utilization"
        text = f"{label}: {clock} of {most} MHz {at}, neither hot nor at its power limit"
        yield Reported(cause="clocks-set-low", line=text)


def _number(text: str | None) -> int | None:
    match = re.match(r"(\d{1,5})(?: ?(?:%|MHz|x))?$", text or "")
    return int(match[1]) if match else None
