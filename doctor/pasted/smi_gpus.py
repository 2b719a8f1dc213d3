"""GPUs of `nvidia-smi -q`: the text's and the XML's names for the same fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from doctor._util.units import MIB
from doctor.facts.load import Watched
from doctor.facts.machine import Gpu
from doctor.facts.views import USED_BYTES
from doctor.pasted.reading import NOT_IN_REPORT, unread_fields

Tree = Mapping[str, Any]

LOST = ("GPU is lost", "GPU requires reset", "Unknown Error")
"""Values in place of a reading where a GPU does not answer."""

ABSENT = ("n/a", "[n/a]", "not supported", "[not supported]")

FABRIC = {"not started": 1, "in progress": 2, "completed": 3}
PLACES: dict[str, tuple[str, ...]] = {
    "name": ("product_name",),
    "uuid": ("uuid", "gpu_uuid"),
    "memory_total": ("fb_memory_usage/total",),
    "memory_used": ("fb_memory_usage/used",),
    "compute_mode": ("compute_mode",),
    "display_active": ("display_active",),
    "persistence": ("persistence_mode",),
    "mig": ("mig_mode/current_mig", "mig_mode/current"),
    "ecc": ("ecc_mode/current_ecc", "ecc_mode/current"),
    "remap_pending": ("remapped_rows/remapped_row_pending", "remapped_rows/pending"),
    "remap_failed": (
        "remapped_rows/remapped_row_failure",
        "remapped_rows/remapping_failure_occurred",
    ),
    "retired_pages_pending": (
        "retired_pages/pending_retirement",
        "retired_pages/pending_page_blacklist",
        "retired_pages/pending_blacklist",
    ),
    "recovery_action": ("gpu_recovery_action",),
    "fabric": ("fabric/state",),
    "sram_threshold": ("ecc_errors/aggregate/sram_threshold_exceeded",),
}
"""Field of `Gpu` -> where the two forms have it."""

VOLATILE = "ecc_errors/volatile"

WORDS: dict[str, int | bool] = {
    "enabled": True, "disabled": False, "yes": True, "no": False,
    "default": 0, "prohibited": 2, "exclusive_process": 3, "e. process": 3,
}  # fmt: skip
ACTIONS = {
    "none": 0, "reset": 1, "gpu reset": 1, "reboot": 2, "node reboot": 2, "drain p2p": 3,
    "drain and reset": 4,
}  # fmt: skip

REASONS = {
    "gpu_idle": 0x1, "idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4,
    "hw_slowdown": 0x8, "sync_boost": 0x10, "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80, "hw_power_brake": 0x80,
    "display_clocks_setting": 0x100, "display_clock_setting": 0x100,
}  # fmt: skip
"""NVML's bits of the clocks' event reasons."""


def gpus_of(trees: Sequence[tuple[str, Tree]]) -> tuple[Gpu, ...]:
    """The GPUs, by bus id and tree."""
    return tuple(_gpu(index, bus_id, tree) for index, (bus_id, tree) in enumerate(trees))


def _gpu(index: int, bus_id: str, tree: Tree) -> Gpu:
    texts = {field: _first(tree, places) for field, places in PLACES.items()}
    values = {field: _value(field, text) for field, text in texts.items()}
    uncorrected, corrected = _errors(tree, "uncorr"), _errors(tree, "corr")
    values |= {"uncorrected": uncorrected, "corrected": corrected}
    used = values["memory_used"]
    if used is not None and used > USED_BYTES:
        values["memory_used"] = None
    return Gpu(
        index=index,
        uuid=texts["uuid"] or f"GPU-{index}",
        bus_id=bus_id,
        lost=_lost(tree),
        unread=unread_fields(values, used, _reasons(texts)),
        **{field: value for field, value in values.items() if field != "uuid"}
        | {"name": texts["name"] or ""},
    )


def _value(field: str, text: str | None) -> Any:
    """The field's value; None where it has none."""
    if text is None or text.lower() in ABSENT or text in LOST:
        return None
    if field.startswith("memory"):
        number = text.split(" ")[0]
        return int(number) * MIB if number.isdecimal() and len(number) < 10 else None
    if field == "fabric":
        return FABRIC.get(text.lower())
    if field == "recovery_action":
        return ACTIONS.get(text.lower())
    return text if field in ("name", "uuid") else WORDS.get(text.lower())


def _errors(tree: Tree, kind: str) -> int | None:
    """The sum of the volatile memory errors of this kind; None if no counter has a value."""
    volatile = _branch(tree, VOLATILE)
    numbers: list[int] = []
    leaves = [(name, value) for name, value in volatile.items() if isinstance(value, str)]
    leaves += [  # before Ampere: double_bit/total, single_bit/total
        ("dram_uncorrectable" if name.startswith("double") else "dram_correctable", part["total"])
        for name, part in volatile.items()
        if isinstance(part, dict) and isinstance(part.get("total"), str)
    ]
    for name, value in leaves:
        is_uncorrected = "uncorrectable" in name
        if is_uncorrected == (kind == "uncorr") and value.isdecimal() and len(value) < 12:
            numbers.append(int(value))
    return sum(numbers) if numbers else None


def _reasons(texts: Mapping[str, str | None]) -> dict[str, str]:
    """What stands in place of a value."""
    stated = {field: text for field, text in texts.items() if text}
    return {f: "Not Supported" if t.lower() in ABSENT else t for f, t in stated.items()}


def watched_of(trees: Sequence[tuple[str, Tree]]) -> tuple[Watched, ...]:
    """One look at each GPU's clocks and link, if the report has them for every GPU."""
    records = tuple(_watched(index, tree) for index, (_, tree) in enumerate(trees))
    return tuple(each for each in records if each) if all(records) else ()


def _watched(index: int, tree: Tree) -> Watched | None:
    reasons = _branch(tree, "clocks_event_reasons") or _branch(tree, "clocks_throttle_reasons")
    mask, stated = 0, False
    for name, value in _leaves(reasons):
        bare = name.removeprefix("clocks_event_reason_").removeprefix("clocks_throttle_reason_")
        if bare in REASONS and value in ("Active", "Not Active"):
            stated = True
            mask |= REASONS[bare] if value == "Active" else 0
    link, most = _link(tree, "current"), _link(tree, "max")
    if not stated and not (link and most):
        return None
    uuid = _first(tree, PLACES["uuid"]) or f"GPU-{index}"
    heat = _first(tree, ("temperature/gpu_temp", "temperature/gpu_current_temp"))
    degrees = (heat or "").removesuffix(" C").strip()
    celsius = int(degrees) if degrees.isdecimal() and len(degrees) < 4 else None
    unread = dict.fromkeys(
        ("uncorrected", "corrected", "remapped_rows", "pcie_replays", "nvlink_errors", "xids"),
        NOT_IN_REPORT,
    )
    unread |= {} if stated else {"samples": NOT_IN_REPORT}
    return Watched(
        uuid=uuid,
        samples=int(stated),
        mask=mask,
        temperature=celsius,
        link=link,
        link_max=most,
        unread=unread,
    )


def _link(tree: Tree, which: str) -> tuple[int, int] | None:
    """Generation and width of the PCIe link, now or at most."""
    info = _branch(tree, "pci/gpu_link_info") or _branch(tree, "pci/pci_gpu_link_info")
    generation = _first(info, (f"pcie_generation/{which}", f"pcie_gen/{which}_link_gen"))
    width = _first(info, (f"link_width/{which}", f"link_widths/{which}_link_width"))
    numbers = [(text or "").removesuffix("x") for text in (generation, width)]
    if not all(each.isdecimal() and 0 < len(each) < 3 for each in numbers):
        return None
    return int(numbers[0]), int(numbers[1])


def _lost(tree: Tree) -> str | None:
    return next((value for _, value in _leaves(tree) if value in LOST), None)


def _leaves(tree: Tree) -> list[tuple[str, str]]:
    leaves: list[tuple[str, str]] = []
    for name, value in tree.items():
        if isinstance(value, dict):
            leaves += _leaves(value)
        elif isinstance(value, str):
            leaves.append((name, value))
    return leaves


def _first(tree: Tree, places: Sequence[str]) -> str | None:
    for place in places:
        *path, name = place.split("/")
        value = _branch(tree, "/".join(path)).get(name) if path else tree.get(name)
        if isinstance(value, str):
            return value
    return None


def _branch(tree: Tree, path: str) -> dict[str, object]:
    branch: Any = tree
    for name in path.split("/"):
        branch = branch.get(name) if isinstance(branch, dict) else None
    return branch if isinstance(branch, dict) else {}
