"""GPUs of `nvidia-smi -q`: the text's and the XML's names for the same fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from doctor._util.units import MIB
from doctor.facts.load import Watched
from doctor.facts.machine import Gpu
from doctor.facts.views import USED_BYTES
from doctor.pasted.reading import NOT_IN_REPORT, unread_fields

Tree = Mapping[str, Any]

LOST, RESET = ("GPU is lost", "Unknown Error"), "GPU requires reset"
"""Values in place of a reading where a GPU does not answer."""

ABSENT = ("n/a", "[n/a]", "not supported", "[not supported]")

FABRIC = {"not started": 1, "in progress": 2, "completed": 3}
PLACES: dict[str, tuple[str, ...]] = {
    "name": ("product_name", "name", "gpu_name"),
    "uuid": ("uuid", "gpu_uuid"),
    "memory_total": ("fb_memory_usage/total", "memory/total"),
    "memory_used": ("fb_memory_usage/used", "memory/used"),
    "compute_mode": ("compute_mode",),
    "display_active": ("display_active",),
    "persistence": ("persistence_mode",),
    "mig": ("mig_mode/current_mig", "mig_mode/current", "mig/mode/current"),
    "ecc": ("ecc_mode/current_ecc", "ecc_mode/current", "ecc/mode/current"),
    "remap_pending": ("remapped_rows/remapped_row_pending", "remapped_rows/pending"),
    "remap_failed": (
        "remapped_rows/remapped_row_failure",
        "remapped_rows/remapping_failure_occurred",
        "remapped_rows/failure",
        "remapping_failure_occurred",
    ),
    "retired_pages_pending": (
        "retired_pages/pending_retirement",
        "retired_pages/pending_page_blacklist",
        "retired_pages/pending_blacklist",
        "retired_pages/pending",
    ),
    "recovery_action": ("gpu_recovery_action",),
    "fabric": ("fabric/state",),
    "sram_threshold": ("ecc_errors/aggregate/sram_threshold_exceeded",),
    "capability": ("compute_cap",),
    "power_limit": (
        "gpu_power_readings/current_power_limit",
        "power_readings/power_limit",
        "power/limit",
        "current_power_limit",
    ),
    "power_limit_default": (
        "gpu_power_readings/default_power_limit",
        "power_readings/default_power_limit",
        "power/default_limit",
        "default_power_limit",
    ),
}
"""Field of `Gpu` -> where the forms have it: text, XML and the columns of --query-gpu. A part of a
report may begin below the first name, and a filtered one has the last alone."""

UNCORRECTED = re.compile(
    r"(?:^|/)(?:ecc_errors/)?volatile/(?:\w*uncorrectable\w*|double_bit/total)$|"
    r"^ecc/errors/uncorrected/volatile/total$"
)
CORRECTED = re.compile(
    r"(?:^|/)(?:ecc_errors/)?volatile/(?:[a-z]+_correctable\w*|single_bit/total)$|"
    r"^ecc/errors/corrected/volatile/total$"
)

LEVELS = ("max", "high", "partial", "low", "none")
BANKS = re.compile(rf"histogram[/_]({'|'.join(LEVELS)})=(\d{{1,6}})(?: bank\(s\))?$")

WORDS: dict[str, int | bool] = {
    "enabled": True, "disabled": False, "yes": True, "no": False, "1": True, "0": False,
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


def gpus_of(trees: Sequence[tuple[str, Tree]], first: int = 0) -> tuple[Gpu, ...]:
    """The GPUs, by bus id and tree; `first`: the number of the first one."""
    return tuple(_gpu(n, bus_id, flat(tree)) for n, (bus_id, tree) in enumerate(trees, first))


def flat(tree: Tree, above: str = "") -> dict[str, str]:
    """The leaves by their path: "fabric/state" -> "Completed"."""
    leaves: dict[str, str] = {}
    for name, value in tree.items():
        path = f"{above}{name}"
        leaves |= flat(value, f"{path}/") if isinstance(value, dict) else {path: value}
    return leaves


def _gpu(index: int, bus_id: str, leaves: Mapping[str, str]) -> Gpu:
    texts = {field: first_of(leaves, places) for field, places in PLACES.items()}
    values = {field: _value(field, text) for field, text in texts.items()}
    values |= {"uncorrected": _sum(leaves, UNCORRECTED), "corrected": _sum(leaves, CORRECTED),
               "remap_banks": _banks(leaves)}  # fmt: skip
    if values["recovery_action"] is None:  # drivers before 570
        values["recovery_action"] = _reset_status(leaves)
    used = values["memory_used"]
    if used is not None and used > USED_BYTES:
        values["memory_used"] = None
    return Gpu(
        index=index,
        uuid=texts["uuid"] or f"GPU-{index}",
        bus_id=bus_id,
        lost=next((value for value in leaves.values() if value in LOST), None),
        unread=unread_fields(values, used, _reasons(texts)),
        **{field: value for field, value in values.items() if field != "uuid"}
        | {"name": texts["name"] or ""},
    )


def _value(field: str, text: str | None) -> Any:
    """The field's value; None where it has none."""
    if text is None or text.lower() in ABSENT or text in (*LOST, RESET):
        return None
    if field.startswith("memory"):
        number = text.split(" ")[0]
        return int(number) * MIB if number.isdecimal() and len(number) < 10 else None
    if field.startswith("power"):
        watts = re.fullmatch(r"(\d{1,5}(?:\.\d{1,3})?)(?: W)?", text)
        return int(float(watts[1]) * 1000) if watts else None
    if field == "capability":
        number_ = re.fullmatch(r"(\d{1,2})\.(\d)", text)
        return (int(number_[1]), int(number_[2])) if number_ else None
    if field == "fabric":
        return FABRIC.get(text.lower())
    if field == "recovery_action":
        return ACTIONS.get(text.lower())
    return text if field in ("name", "uuid") else WORDS.get(text.lower())


def _banks(leaves: Mapping[str, str]) -> tuple[int, ...] | None:
    """How many banks have all, many, some, few and no spare rows left."""
    found = {m[1]: int(m[2]) for path, value in leaves.items()
             if (m := BANKS.search(f"{path}={value}"))}  # fmt: skip
    return tuple(found[level] for level in LEVELS) if found.keys() == {*LEVELS} else None


def _reset_status(leaves: Mapping[str, str]) -> int | None:
    """The recovery action that "GPU Reset Status" asks for; None if it asks for none."""
    asked = {"reset_required": 1, "drain_and_reset_recommended": 4}
    if RESET in leaves.values():
        return 1
    found = (number for name, number in asked.items()
             if first_of(leaves, (f"gpu_reset_status/{name}", name)) == "Yes")  # fmt: skip
    return next(found, None)


def _sum(leaves: Mapping[str, str], counters: re.Pattern[str]) -> int | None:
    """The sum of the volatile memory errors of one kind; None if no counter has a value."""
    values = [value for path, value in leaves.items() if counters.search(path)]
    numbers = [int(value) for value in values if value.isdecimal() and len(value) < 12]
    return sum(numbers) if numbers else None


def _reasons(texts: Mapping[str, str | None]) -> dict[str, str]:
    """What stands in place of a value."""
    stated = {field: text for field, text in texts.items() if text}
    return {f: "Not Supported" if t.lower() in ABSENT else t for f, t in stated.items()}


def watched_of(trees: Sequence[tuple[str, Tree]], first: int = 0) -> tuple[Watched, ...]:
    """One look at each GPU's clocks and link, if the report has them for every GPU."""
    records = tuple(_watched(index, flat(tree)) for index, (_, tree) in enumerate(trees, first))
    return tuple(each for each in records if each) if all(records) else ()


def _watched(index: int, leaves: Mapping[str, str]) -> Watched | None:
    mask = clock_reasons(leaves)
    link, most = _link(leaves, "current"), _link(leaves, "max")
    if mask is None and not (link and most):
        return None
    temperatures = ("temperature/gpu_temp", "temperature/gpu_current_temp", "temperature/gpu")
    degrees = (first_of(leaves, temperatures) or "").removesuffix(" C").strip()
    unread = dict.fromkeys(
        ("uncorrected", "corrected", "remapped_rows", "pcie_replays", "nvlink_errors", "xids"),
        NOT_IN_REPORT,
    )
    return Watched(
        uuid=first_of(leaves, PLACES["uuid"]) or f"GPU-{index}",
        samples=int(mask is not None),
        mask=mask or 0,
        temperature=int(degrees) if degrees.isdecimal() and len(degrees) < 4 else None,
        link=link,
        link_max=most,
        unread=unread | ({} if mask is not None else {"samples": NOT_IN_REPORT}),
    )


def clock_reasons(leaves: Mapping[str, str]) -> int | None:
    """The bits of why the clocks are what they are; None: not stated."""
    mask = None
    for path, value in leaves.items():
        branch, _, name = path.rpartition("/")
        if branch and not re.search(r"(?:^|/)clocks_(?:event|throttle)_reasons(?:/|$)", branch):
            continue
        bare = name.removeprefix("clocks_event_reason_").removeprefix("clocks_throttle_reason_")
        if name == "active" and re.fullmatch(r"0x[\da-fA-F]{1,16}", value):
            mask = (mask or 0) | int(value, 16)
        elif bare in REASONS and value in ("Active", "Not Active"):
            mask = (mask or 0) | (REASONS[bare] if value == "Active" else 0)
    return mask


def _link(leaves: Mapping[str, str], which: str) -> tuple[int, int] | None:
    """Generation (0 where only the width is stated) and width of the PCIe link, now or at most."""
    generation = first_of(
        leaves,
        (
            f"pcie_generation/{which}",
            f"pcie_gen/{which}_link_gen",
            f"pcie/link/gen/{which}",
            f"pcie/link/gen/gpu{which}",
        ),
    )
    width = first_of(
        leaves,
        (f"link_width/{which}", f"link_widths/{which}_link_width", f"pcie/link/width/{which}"),
    )
    numbers = [(text or "").removesuffix("x") for text in (generation or "0", width)]
    if not all(each.isdecimal() and len(each) < 3 for each in numbers) or numbers[1] == "0":
        return None
    return int(numbers[0]), int(numbers[1])


def first_of(leaves: Mapping[str, str], places: Sequence[str]) -> str | None:
    """The first of these paths; one of several names may stand below others."""
    for place in places:
        if place in leaves:
            return leaves[place]
        if "/" in place:
            found = (value for path, value in leaves.items() if path.endswith(f"/{place}"))
            if (value := next(found, None)) is not None:
                return value
    return None
