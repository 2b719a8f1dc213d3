"""GPUs that work, with a slow link or a low clock, which save power on an idle GPU, or too hot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from doctor.facts.host import Reported
from doctor.pasted.reading import Reading
from doctor.pasted.smi_gpus import Tree, clock_reasons, first_of, flat
from doctor.pasted.smi_table import FIRST, memory_of

BUSY, FULL = 50, 80
"""Percent of utilization at which a link, and a clock, no longer save power. Our own numbers."""
SLOW_GENERATION, FAST_GENERATION = 2, 4
"""As GPU005 judges a link under load."""
LOW_CLOCK = 0.65
"""Share of the highest clock. GPUs at their power limit run at three quarters. Our own number."""
SET = 0x2 | 0x10 | 0x100
"""Reasons of a clock that somebody chose: application clocks, sync boost, a display."""
POWER_CAP = 0x4
HOT = 90
"""Degrees at which GPUs of any kind lower their clock: H100 from 87 on, GeForce from 83 to 90."""
FAN_RUNS = 80
"""Fans of GeForce boards stand still up to about 60 degrees."""
IDLE_STATE, IDLE_POWER = 8, 0.3
"""P8 and above are states of idle GPUs, which draw less than this share. Our own number."""
SMALL_LIMIT = 0.8
"""Share of the others' power limit; boards of two makers differ by a tenth. Our own number."""
SECOND = re.compile(
    r"\s*\|\s*(?P<fan>\d{1,3}%|N/A|ERR!)\s+(?P<heat>\d{1,3})C\s+P(?P<state>\d{1,2})\s+"
    r"(?P<power>\d{1,4})W\s*/\s*(?P<limit>\d{1,4})W\s*\|[^|]{1,30}\|\s*(?P<use>\d{1,3})%"
)
COMPUTES = re.compile(
    r"\s*\|\s*(\d{1,3})\s+(?:(?:N/A|\d{1,3})\s+){0,2}(\d{2,8})\s+C\s+(\S.{0,60}?)\s+"
    r"(\d{1,7})MiB \|"
)
"""Number of the GPU, process, name and MiB; C stands for computing alone."""
MUCH = 0.15
"""Share of the GPU's memory that a training holds at least. Our own number."""
SLOWER = re.compile(
    r"\bslow|\d ?% (?:lower|less) (?:throughput|speed)|doubled|takes twice|\b[2-9]x longer|"
    r"half (?:of )?(?:the|its) (?:speed|rate)|throughput (?:fell|drop)",
    re.IGNORECASE,
)
LOWERED = re.compile(r"\s*LnkSta:\s+Speed 2\.5GT/s \(downgraded\)")
"""lspci compares with what the GPU is capable of, which a placeholder never falls short of."""
PLACES = {
    "use": ("utilization/gpu", "utilization/gpu_util"),
    "generation": ("pcie_generation/current", "pcie_gen/current_link_gen", "pcie/link/gen/current",
                   "pcie/link/gen/gpucurrent"),
    "supported": ("pcie_generation/max", "pcie_gen/max_link_gen", "pcie/link/gen/max",
                  "pcie/link/gen/gpumax"),
    "host": ("pcie_generation/host_max", "pcie_gen/max_host_link_gen", "pcie/link/gen/hostmax"),
    "clock": ("clocks/sm", "clocks/sm_clock", "clocks/current/sm"),
    "most": ("max_clocks/sm", "max_clocks/sm_clock", "clocks/max/sm"),
    "heat": ("temperature/gpu_temp", "temperature/gpu_current_temp", "temperature/gpu"),
    "limit": ("gpu_power_readings/current_power_limit", "power_readings/power_limit",
              "power/limit", "current_power_limit"),
    "default": ("gpu_power_readings/default_power_limit", "power_readings/default_power_limit",
                "power/default_limit", "default_power_limit"),
    "draw": ("gpu_power_readings/instantaneous_power_draw", "gpu_power_readings/power_draw",
             "gpu_power_readings/average_power_draw", "power_readings/power_draw",
             "power/draw", "power/draw/instant", "power_draw"),
}  # fmt: skip


class Card(NamedTuple):
    """A GPU with what nvidia-smi reads of it: watts, percent, degrees, the number of its state."""

    number: int
    name: str
    limit: int
    use: int
    heat: int = 0
    power: int = 0
    state: int = 0
    has_still_fan: bool = False


def slow_of(
    trees: Sequence[tuple[str, Tree]], lines: Sequence[str], first: int = 0
) -> Iterator[Reported]:
    """What is slow on which GPU; `first`: the number of the first one."""
    every = [flat(tree) for _, tree in trees]
    read = [{name: _number(first_of(leaves, places)) or 0 for name, places in PLACES.items()}
            for leaves in every]  # fmt: skip
    fastest = max((values["generation"] for values in read), default=0)
    for number, (leaves, values) in enumerate(zip(every, read, strict=True), first):
        label = f"GPU {leaves.get('index', number)}"
        # A virtual machine may report a placeholder, and no generation of the host.
        if fastest > SLOW_GENERATION or values["host"] or any(map(LOWERED.match, lines)):
            yield from _slow_link(label, values)
        mask = clock_reasons(leaves)
        yield from _low_clock(label, values, mask)
        if mask is not None and mask & POWER_CAP:
            yield from _low_limit(label, values)
        if values["heat"] >= HOT and values["use"] >= BUSY:
            yield _hot(label, values["heat"], values["use"])
    names = [first_of(leaves, ("product_name", "name", "gpu_name")) or "" for leaves in every]
    cards = [Card(first + n, names[n], values["limit"], values["use"])
             for n, values in enumerate(read)]  # fmt: skip
    yield from _limits(cards)


def table_of(lines: Sequence[str]) -> Iterator[Reported]:
    """The same of the table of nvidia-smi, and its fans."""
    rows = [line for line in lines if "|" in line]
    cards = _cards(rows)
    for card in cards:
        if card.has_still_fan and card.heat >= FAN_RUNS:
            text = f"GPU {card.number}: its fan stands still at {card.heat} C"
            yield Reported(cause="gpu-fan-stopped", line=text)
        elif card.heat >= HOT and card.use >= BUSY:
            yield _hot(f"GPU {card.number}", card.heat, card.use)
        if card.use >= FULL and card.state >= IDLE_STATE and card.power < IDLE_POWER * card.limit:
            text = f"GPU {card.number}: state P{card.state} at {card.use} % utilization"
            end = f"and {card.power} of {card.limit} W"
            yield Reported(cause="gpu-stays-in-idle-state", line=f"{text} {end}")
    yield from _limits(cards)
    shared = list(_shared(rows, {card.number for card in cards if card.use >= FULL}))
    if shared and any(map(SLOWER.search, lines)):
        yield from shared


def _shared(rows: Sequence[str], busy: set[int]) -> Iterator[Reported]:
    """Busy GPUs on which two processes compute that hold much memory."""
    totals = {int(number): total for number, _, total in memory_of(rows)}
    found: dict[int, list[str]] = {}
    for line in rows:
        match = COMPUTES.match(line)
        if match and int(match[1]) in busy and int(match[4]) > MUCH * totals.get(int(match[1]), 0):
            found.setdefault(int(match[1]), []).append(f"{match[2]} ({match[3]})")
    for number, processes in found.items():
        if len(processes) > 1:
            text = f"{len(processes)} processes compute on GPU {number}: {', '.join(processes[:4])}"
            yield Reported(cause="gpu-shared-by-trainings", line=text)


def _cards(lines: Sequence[str]) -> list[Card]:
    """The GPUs of the first table whose readings are numbers."""
    cards: list[Card] = []
    number, name = -1, ""
    for line in lines:
        if match := FIRST.match(line):
            if int(match[1]) <= number:
                break
            number, name = int(match[1]), match[2]
        elif number >= 0 and (match := SECOND.match(line)):
            still = match["fan"] == "0%" and "GeForce" in name
            values = {part: int(match[part]) for part in ("limit", "use", "heat", "power", "state")}
            cards.append(Card(number, name, has_still_fan=still, **values))
    return cards


def _hot(label: str, heat: int, use: int) -> Reported:
    return Reported(cause="gpu-hot", line=f"{label}: {heat} C at {use} % utilization")


def _limits(cards: Sequence[Card]) -> Iterator[Reported]:
    """A working GPU whose power limit is far below that of the others of its name."""
    for card in cards:
        others = {each.limit for each in cards if each.name == card.name} - {card.limit}
        rest = [each for each in cards if each.name == card.name and each.limit != card.limit]
        if len(others) == 1 and len(rest) >= 1 and card.use >= BUSY:
            (most,) = others
            if 0 < card.limit < SMALL_LIMIT * most:
                text = f"GPU {card.number}: power limit {card.limit} W, the other GPUs have {most}"
                end = f"W, at {card.use} % utilization"
                yield Reported(cause="power-limit-low", line=f"{text} {end}")


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


def _low_limit(label: str, values: Mapping[str, int]) -> Iterator[Reported]:
    """A limit below the default that the GPU draws, and at which its clock is low."""
    limit, clock, most = values["limit"], values["clock"], values["most"]
    is_low = 0 < limit < SMALL_LIMIT * values["default"] and 0 < clock < LOW_CLOCK * most
    if is_low and (values["use"] >= FULL or values["draw"] >= 0.9 * limit):
        text = f"{label}: power limit {limit} W of {values['default']} W by default holds the clock"
        yield Reported(cause="power-limit-low", line=f"{text} at {clock} of {most} MHz")


def lowered(reading: Reading, lines: Sequence[str]) -> Iterator[Reported]:
    """GPUs at a power limit far below their default, where somebody asks why they are slow."""
    if not any(map(SLOWER.search, lines)):
        return
    capped = {each.uuid for each in reading.watched if each.mask & POWER_CAP}
    known = {each.line.partition(":")[0] for each in reading.reported
             if each.cause == "power-limit-low"}  # fmt: skip
    for gpu in reading.gpus:
        limit, default = (gpu.power_limit or 0) // 1000, (gpu.power_limit_default or 0) // 1000
        label = f"GPU {gpu.index}"
        if gpu.uuid in capped and label not in known and 0 < limit < SMALL_LIMIT * default:
            text = f"{label}: power limit {limit} W of {default} W by default holds the clock down"
            yield Reported(cause="power-limit-low", line=text)


def _number(text: str | None) -> int | None:
    match = re.match(r"(\d{1,5})(?:\.\d{1,2})?(?: ?(?:%|MHz|x|C|W))?$", text or "")
    return int(match[1]) if match else None
