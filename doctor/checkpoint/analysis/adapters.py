"""adapter_config.json of a LoRA adapter beside its tensors."""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from doctor._util.units import shown
from doctor.checkpoint.analysis.float_decode import floats
from doctor.checkpoint.analysis.merging.adapter import finite_number
from doctor.checkpoint.analysis.moments import Reading
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, LocalDirectory
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.records import LoraFit
from doctor.checkpoint.tensors import Tensor

_LORA = re.compile(
    r"(?P<module>.+)\.lora_(?:(?P<side>[AB])|embedding_(?P<embedded>[AB]))(?:\.\w+)?"
    r"(?:\.(?:weight|default))?"
)

_NESTED = re.compile(r"\.layers\.\d+\.(?:(\w+)\.)?self_attn\.")
SHARED = ("shared_transf", "shared_transformer", "self_attn")
"""What layers of Zamba and others have there."""

LEAD = "base_model.model."

BOTH = 2
"""Factors of a module."""

READS = 20_000
SAMPLED = 2_000
"""Tensors of which a part is read for the size of their values."""
FIRST = 512
"""Bytes of that part."""
MOST = 10


def fit_lora(
    config: Mapping[str, object], tensors: Sequence[Tensor], directory: Directory
) -> LoraFit | None:
    """None where it is no plain LoRA adapter, or its tensors are of another method."""
    if config.get("peft_type") != "LORA" or config.get("target_parameters"):
        return None
    found = [(tensor, match) for tensor in tensors if (match := _LORA.fullmatch(tensor.name))]
    if not found and any("lora" in tensor.name for tensor in tensors):
        return None
    modules = dict.fromkeys(match["module"] for _, match in found)
    sides = [(tensor, match["side"] or "", match["embedded"] or "") for tensor, match in found]
    ranks = Counter(
        str(tensor.shape[0]) for tensor, side, embedded in sides if "A" in side + embedded
    )
    targets = _targets(config.get("target_modules"))
    absent = [name for name in targets if not any(_is(module, name) for module in modules)]
    strangers = [
        module for module in modules if targets and not any(_is(module, name) for name in targets)
    ]
    whole = _targets(config.get("modules_to_save"))
    saved = any(f".{name}." in f".{tensor.name}" for tensor in tensors for name in whole)
    moving = [tensor for tensor, side, embedded in sides if side == "B" or embedded == "A"]
    zero = _zero(moving, directory)
    factors = Counter(
        module for module, _ in {(m["module"], m["side"] or m["embedded"]) for _, m in found}
    )
    return LoraFit(
        rank=_whole(config.get("r")),
        other_ranks=_pattern(config.get("rank_pattern")),
        stored_ranks=dict(ranks.most_common(MOST)),
        alpha=finite_number(config.get("lora_alpha")),
        targets=len(targets),
        absent_targets=tuple(shown(name, 100) for name in absent[:MOST]),
        strangers=tuple(shown(name, 200) for name in strangers[:MOST]),
        unsaved=() if saved else tuple(shown(name, 100) for name in whole[:MOST]),
        empty=tuple(shown(t.name, 200) for t in tensors if t.shape == (0,))[:MOST],
        misnamed=next((shown(t.name, 200) for t, _ in found if _is_misnamed(t.name)), ""),
        foreign=_foreign(modules),
        incomplete=tuple(shown(name, 200) for name, n in factors.items() if n < BOTH)[:MOST],
        others=len(tensors) - len(found),
        b_tensors=len(moving),
        zero_b=None if zero is None else len(zero),
        zero_names=tuple(shown(name, 200) for name in zero or ())[:MOST],
        largest_b=_largest(moving, directory),
    )


def _targets(value: object) -> list[str]:
    """The names in a list; [] for a regular expression, which is not evaluated."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _is(module: str, name: str) -> bool:
    return module == name or module.endswith(f".{name}")


def _pattern(value: object) -> tuple[int, ...]:
    ranks = value.values() if isinstance(value, dict) else ()
    return tuple(sorted({rank for rank in ranks if type(rank) is int}))[:100]


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def _is_misnamed(name: str) -> bool:
    """Whether peft's loading passes it over: it adds the adapter's name itself."""
    return not name.startswith(LEAD) or name.startswith(LEAD * 2) or ".default." in name


def _foreign(modules: Iterable[str]) -> str:
    """A module with a name between its layer and self_attn, "" where some have none there."""
    of_layers = [(name, match) for name in modules if (match := _NESTED.search(name))]
    if any(not match[1] or match[1] in SHARED for _, match in of_layers):
        return ""
    return next((shown(name, 200) for name, _ in of_layers), "")


def _zero(tensors: Sequence[Tensor], directory: Directory) -> list[str] | None:
    """Of the tensors that are initialized to zero, those that are; None where some are unread."""
    names = []
    with OpenFiles(directory) as files:
        reading = Reading(files, READS)
        for tensor in tensors:
            zero = reading.is_zero(tensor) if tensor.dtype in ("F32", "F16", "BF16") else None
            if zero is None:
                return None
            if zero:
                names.append(tensor.name)
    return names


def _largest(tensors: Sequence[Tensor], directory: Directory) -> float | None:
    """The largest absolute value in the first bytes of each; None where one is not read so."""
    largest = 0.0
    if len(tensors) > SAMPLED or not isinstance(directory, LocalDirectory):
        return None
    with OpenFiles(directory) as files:
        for tensor in tensors:
            plain = tensor.dtype in ("F32", "F16", "BF16") and tensor.strides is None
            if not plain or tensor.parts:
                return None
            size = min(tensor.end - tensor.begin, FIRST)
            with contextlib.suppress(CheckpointError):
                data = files.source(tensor.file).read(size, tensor.begin)
                if len(data) == size:
                    largest = max(largest, *map(abs, floats(tensor.dtype, data)), 0.0)
                    continue
            return None
    return largest if math.isfinite(largest) else None
