"""The files of a model directory: complete, of a known model, and loaded into it.

Headers are read without a library; nothing is unpickled. Every message is one of the rows of
doctor.errors.tables.model_files.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from ..foreign import Foreign, observing
from ..foreign.descriptions import listed

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
LONGEST_HEADER = 100_000_000
"""Bytes; safetensors refuses a longer one."""
SHOWN = 4
LAYER = re.compile(r"\.\d+\.")


class BadFiles(Exception):
    """Files of the directory that cannot be what the training starts from."""


def require_config(directory: str, transformers: Foreign) -> Dict[str, Any]:
    """config.json as it is written. Raises BadFiles if this transformers cannot know it."""
    try:
        with open(os.path.join(directory, CONFIG), encoding="utf-8") as file:
            data = json.load(file)
    except (ValueError, RecursionError) as error:
        raise BadFiles("config.json is not valid JSON: %s" % error) from None
    if not isinstance(data, dict):
        raise BadFiles("config.json is not valid JSON of a model: it has no names")
    kind = data.get("model_type")
    known = transformers.CONFIG_MAPPING
    if not isinstance(kind, str) or kind in known or "auto_map" in data:
        return data
    written = data.get("transformers_version")
    raise BadFiles(
        "transformers %s does not know model_type %r of config.json%s"
        % (transformers.__version__, kind,
           ", which transformers %s wrote" % written if isinstance(written, str) else "")
    )  # fmt: skip


def require_whole(directory: str) -> None:
    """Raise BadFiles if a .safetensors file is absent or cut off."""
    names = sorted(name for name in os.listdir(directory) if name.endswith(".safetensors"))
    absent = [name for name in indexed(directory) if name not in names]
    if absent:
        raise BadFiles(
            "%s names %d %s that the directory does not have: %s"
            % (INDEX, len(absent), "file" if len(absent) == 1 else "files", listed(absent, SHOWN))
        )
    for name in names:
        sizes = sizes_of(os.path.join(directory, name))
        if sizes is not None and sizes[0] > sizes[1]:
            raise BadFiles("%s is cut off: it has %d of %d bytes" % (name, sizes[1], sizes[0]))


FLOATING = re.compile(r"^(?:F64|F32|F16|BF16)$")
STORED = ("bitsandbytes", "gptq", "awq")
"""Methods of which the files hold quantized weights; others quantize while they train or load."""
QUANTIZED = re.compile(r"absmax|quant|scale|zero|SCB|packed|_blocks|codebook")
"""In the names of tensors that quantized weights consist of."""


def require_quantized(directory: str, method: str) -> None:
    """Raise BadFiles if config.json quantizes weights that no file has in a quantized form."""
    if method not in STORED:
        return
    tensors: Dict[str, str] = {}
    for name in os.listdir(directory):
        if name.endswith(".safetensors"):
            dtypes = dtypes_of(os.path.join(directory, name))
            if dtypes is None:
                return  # the quantized tensors may be in this file: loading it shows its fault
            tensors.update(dtypes)
    whole = all(FLOATING.match(dtype) for dtype in tensors.values())
    if tensors and whole and not any(QUANTIZED.search(name) for name in tensors):
        raise BadFiles(
            "config.json has a quantization_config of %s, and none of the %d tensors of the files "
            "is quantized: they are %s"
            % (method, len(tensors), ", ".join(sorted(set(tensors.values()))))
        )


def dtypes_of(path: str) -> Optional[Dict[str, str]]:
    """Tensor of a .safetensors file -> its dtype; None if its header cannot be read."""
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            tensors = _tensors(file.read(min(length, LONGEST_HEADER)))
        return {name: str(each["dtype"]) for name, each in tensors.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _tensors(header: bytes) -> Dict[str, Any]:
    """Name -> entry of each tensor. Raises what JSON that is no header leads to."""
    return {name: each for name, each in json.loads(header).items() if name != "__metadata__"}


def indexed(directory: str) -> List[str]:
    """The files that the index of a model in several parts names."""
    try:
        with open(os.path.join(directory, INDEX), encoding="utf-8") as file:
            parts = json.load(file)["weight_map"]
        return sorted({str(name) for name in parts.values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def sizes_of(path: str) -> Optional[Tuple[int, int]]:
    """Bytes that the header of a .safetensors file asks for, and has; None if it has none."""
    present = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if present < 8 or length > min(LONGEST_HEADER, present - 8):
            return (8 + length, present) if length <= LONGEST_HEADER else None
        try:
            ends = [each["data_offsets"][1] for each in _tensors(file.read(length)).values()]
            return 8 + length + max(ends, default=0), present
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            return None


TRIED = 16
"""Names from which a prefix is guessed."""


def require_loaded(
    model: Foreign, info: Dict[str, Any], *, renamed: bool, fitting: Callable[[Foreign], str]
) -> List[str]:
    """Names of parameters that the files do not hold and that may start at random.

    Raises BadFiles if they have other shapes, with what `fitting` says of these, or if parts of the
    model's layers are not there.
    """
    mismatched = sorted(info.get("mismatched_keys") or (), key=str)
    if mismatched:
        size = observing.attempt(lambda: fitting(mismatched), "")
        fits = "; with %s in config.json they fit" % size if size else ""
        raise BadFiles(_of_other_shapes(mismatched) + fits)
    missing = sorted(map(str, info.get("missing_keys") or ()))
    unexpected = sorted(map(str, info.get("unexpected_keys") or ()))
    names = {name for name, _ in model.named_parameters()}
    lacking = [name for name in missing if name in names]
    if not lacking:
        return []
    if prefix := _prefix(lacking, unexpected):
        raise BadFiles(
            "%d of %d parameters were not loaded: in the files their names %s"
            % (len(lacking), len(names), prefix)
        )
    in_layers = [name for name in lacking if LAYER.search(name)]
    if in_layers or 2 * len(lacking) > len(names):
        raise BadFiles(
            "%d of %d parameters were not loaded, because the files do not have them: %s"
            % (len(lacking), len(names), listed(in_layers or lacking, SHOWN))
        )
    return [] if renamed else lacking


def _of_other_shapes(mismatched: Iterable[Any]) -> str:
    """The entries of transformers: (name, shape in the file, shape of the model)."""
    entries = list(mismatched)
    shown = [
        "%s %s in the files, %s by config.json" % (each[0], list(each[1]), list(each[2]))
        if isinstance(each, (tuple, list)) and len(each) == 3 else str(each)
        for each in entries[:SHOWN]
    ]  # fmt: skip
    more = " and %d more" % (len(entries) - SHOWN) if len(entries) > SHOWN else ""
    return "parameters have another shape in the files: %s%s" % ("; ".join(shown), more)


def _prefix(missing: List[str], unexpected: List[str]) -> str:
    """What is before most names in the files, or what they lack; "" if no prefix fits.

    The library passes over some names, so that any single one may be without its counterpart.
    """
    for words, longer, shorter in (("begin with", unexpected, missing),
                                   ("lack the beginning", missing, unexpected)):  # fmt: skip
        known = set(longer)
        for name in shorter[:TRIED]:
            for other in longer:
                if not other.endswith("." + name):
                    continue
                prefix = other[: -len(name)]
                if sum(prefix + each in known for each in shorter) * 2 > len(shorter):
                    return "%s %r" % (words, prefix)
    return ""
