"""The PCIe link of a GPU under load: lanes, generation and copies from the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from doctor.facts.load import Load, Watched
from doctor.hardware.find import family_of

GIGA = 1e9
LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s of one PCIe lane by generation, including packet headers."""
LINK_SHARE = 0.4
"""Required share of the raw rate of the lanes in use. A pinned copy from the nearest memory reaches
about 0.8 of it, one from the other socket's memory as little as half of that (gearshifft-82)."""
LEAST_FROM_HOST = 2.85
"""GB/s below which Vast.ai does not verify a machine (vast-self-test)."""
MOST_REPLAYS = 8
"""Retransmitted PCIe packets that DCGM accepts in a minute; the run is shorter."""
LANES, CONSUMER_LANES = 8, 4
"""Lanes that a healthy board has. AWS connects T4, L4 and L40S by 8 of 16, desktops with two GPUs
do the same, and laptops and external boxes connect a GeForce by 4."""
SLOW_GENERATION, FAST_GENERATION = 2, 4


class Link(NamedTuple):
    """The link as the end of a summary, and what is wrong with it."""

    text: str
    problems: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        return ("pcie-link",) if self.problems else ()


def link_of(load: Load, watched: Watched | None, same_model: Iterable[Watched | None]) -> Link:
    """Judge the link of a GPU. `same_model`: the records of all GPUs of its model."""
    widest = max((gpu.link[1] for gpu in same_model if gpu and gpu.link), default=0)
    return Link(_text(load, watched), tuple(_problems(load, watched, widest)))


def _text(load: Load, watched: Watched | None) -> str:
    link, most = (watched.link, watched.link_max) if watched else (None, None)
    pcie = f" over PCIe {link[0]}.0 x{link[1]}" if link else ""
    if load.to_device is None:
        reason = load.unread.get("to_device", "not recorded")
        text = f"; copies from the host not measured ({reason}){pcie}"
    else:
        text = f"; {load.to_device / GIGA:.1f} GB/s from the host{pcie}"
    if link and most and link[1] < most[1]:
        text += f" (the GPU supports x{most[1]})"
    if not (link and most):
        reason = watched.unread.get("link", "not recorded") if watched else "not watched"
        text += f", PCIe link not read ({reason})"
    return text


def missing_lanes(name: str, watched: Watched, widest: int) -> str:
    """What the link lacks in lanes, "" if nothing; `widest`: of the GPUs of the same model."""
    if not (watched.link and watched.link_max):
        return ""
    lanes = max(widest, min(watched.link_max[1], _least_lanes(name)))
    now = watched.link[1]
    return f"{now} PCIe lanes in use, {lanes} required" if now < lanes else ""


def _least_lanes(name: str) -> int:
    family = family_of(name)
    return CONSUMER_LANES if family and family.segment in ("consumer", "laptop") else LANES


def _reading_is_wrong(load: Load, link: tuple[int, int]) -> bool:
    """Copies are faster than such a link can be: some virtual machines report a placeholder."""
    most = LANE.get(link[0], 0.0) * link[1] * GIGA
    return bool(most) and load.to_device is not None and load.to_device > most


def _problems(load: Load, watched: Watched | None, widest: int) -> list[str]:
    problems = []
    least, of_link = LEAST_FROM_HOST, ""
    link, most = (watched.link, watched.link_max) if watched else (None, None)
    if link and most and not _reading_is_wrong(load, link):
        missing = missing_lanes(load.name, watched, widest) if watched else ""
        problems += [missing] if missing else []
        if link[0] <= SLOW_GENERATION and most[0] >= FAST_GENERATION:
            problems.append(f"PCIe generation {link[0]} under load, {most[0]} supported")
        # In a virtual machine the maximum is the GPU's own, whatever generation its slot has.
        generation = link[0] if link[0] > SLOW_GENERATION else most[0]
        least = max(least, LINK_SHARE * LANE.get(generation, 0.0) * link[1])
        of_link = f" over PCIe {generation}.0 x{link[1]}"
    if load.to_device is not None and load.to_device < least * GIGA:
        problems.append(f"at least {least:.1f} GB/s from the host required{of_link}")
    replays = watched.pcie_replays if watched else None
    if replays and replays > MOST_REPLAYS:
        problems.append(f"{replays} PCIe packets retransmitted, at most {MOST_REPLAYS} accepted")
    return problems
