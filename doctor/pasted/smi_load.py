"""GPUs that work, with a slow link or a low clock: on an idle GPU both save power."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from doctor.facts.machine import Reported
from doctor.pasted.smi_gpus import Tree, clock_reasons, first_of, flat

BUSY = 50
"""Percent of utilization that count as load. Our own number."""
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
    "clock": ("clocks/sm", "clocks/sm_clock", "clocks/current/sm"),
    "most": ("max_clocks/sm", "max_clocks/sm_clock", "clocks/max/sm"),
}  # fmt: skip


def slow_of(trees: Sequence[tuple[str, Tree]], first: int = 0) -> Iterator[Reported]:
    """What is slow on which GPU; `first`: the number of the first one."""
    for number, (_, tree) in enumerate(trees, first):
        leaves = flat(tree)
        values = {name: _number(first_of(leaves, places)) for name, places in PLACES.items()}
        use = values["use"]
        if use is not None and use >= BUSY:
            label = f"GPU {leaves.get('index', number)}"
            yield from _slow(label, values, clock_reasons(leaves))


def _slow(label: str, values: Mapping[str, int | None], mask: int | None) -> Iterator[Reported]:
    generation, supported = values["generation"], values["supported"]
    at = f"at {values['use']} % utilization"
    if generation and supported and generation <= SLOW_GENERATION and supported >= FAST_GENERATION:
        text = f"{label}: PCIe generation {generation} of {supported} {at}"
        yield Reported(cause="pcie-generation-low", line=text)
    clock, most = values["clock"], values["most"]
    is_set = mask is not None and not mask & ~SET
    if is_set and clock and most and clock < LOW_CLOCK * most:
        text = f"{label}: {clock} of {most} MHz {at}, neither hot nor at its power limit"
        yield Reported(cause="clocks-set-low", line=text)


def _number(text: str | None) -> int | None:
    match = re.match(r"(\d{1,5})(?: ?(?:%|MHz|x))?$", text or "")
    return int(match[1]) if match else None
