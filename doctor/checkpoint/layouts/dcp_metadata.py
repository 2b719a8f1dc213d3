"""The .metadata of torch.distributed.checkpoint: what is stored, and where each item lies.

Nothing is taken from it but names, sizes and places, and the places are checked.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from doctor._util.units import shown
from doctor.checkpoint.actions import NO_ACTIONS, Actions
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.safetensors import WIDEST
from doctor.checkpoint.io.files import Source
from doctor.checkpoint.layouts.dcp_chunks import Item, StoredTensor
from doctor.checkpoint.pickle.nodes import attributes, mapping, members
from doctor.checkpoint.pickle.reader import read_pickle
from doctor.checkpoint.records import Problem
from doctor.checkpoint.tensors import Tensor

LIMIT = 256 << 20
"""Bytes of .metadata that are read."""

MOST_ITEMS = 2_000_000

KNOWN = re.compile(
    r"torch\.distributed\.checkpoint\.metadata\.\w+(?:\.[A-Z_]+)?|builtins\.getattr|"
    r"torch\.distributed\.checkpoint\.filesystem\._StorageInfo|torch\.serialization\._get_layout|"
    r"torch\.distributed\._shard\.sharded_tensor\.metadata\.(?:TensorProperties|"
    r"MEM_FORMAT_ENCODING(?:\.[A-Z_]+)?)|torch\.(?:Size|bool|u?int\d+|b?float\w+|complex\d+)|"
    r"pathlib\.(?:_local\.)?(?:Pure)?(?:Posix|Windows)?Path|collections\.(?:OrderedDict|"
    r"defaultdict)"
)
"""What every .metadata imports. Python up to 3.11.3 writes a member of an enumeration as
getattr(class, name), which is known here under its whole name."""

FAMILIAR = re.compile(
    r"numpy\.(?:_?core\.multiarray\.(?:_reconstruct|scalar)|ndarray|dtype|dtypes\.\w+)"
    r"|numpy\.random\.(?:_pickle|bit_generator|_mt19937|_pcg64|_philox|_sfc64)\.\w+"
    r"|_io\.BytesIO|argparse\.Namespace|types\.SimpleNamespace|datetime\.\w+|uuid\.UUID"
    r"|builtins\.(?:list|dict|tuple|frozenset|slice|range|int|float|str|bytes|bool|object)"
    r"|collections\.deque|copyreg\._reconstructor|functools\.partial|torch\._C\.\w+"
    r"|(?:megatron|transformer_engine|torchtitan|torchdata|accelerate|deepspeed)\.[\w.]+"
)
"""What the objects of real checkpoints import beside what weights-only loading allows."""


@dataclass(slots=True)
class Dcp:
    """What was found in one directory."""

    under: str
    size: int = 0
    """Bytes of .metadata."""
    stored: dict[str, StoredTensor] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    objects: dict[str, object] = field(default_factory=dict)
    """Values of pickled objects that are plain: numbers, texts, lists of them."""
    sizes: dict[str, int] = field(default_factory=dict)
    """.distcp file -> bytes."""
    problems: list[Problem] = field(default_factory=list)
    imports: dict[str, None] = field(default_factory=dict)
    refused: dict[str, None] = field(default_factory=dict)
    executed: dict[str, None] = field(default_factory=dict)
    """Imports that such files do not hold usually. dcp.load reads .metadata with pickle.load and
    objects with torch.load(weights_only=False)."""
    actions: Actions = NO_ACTIONS
    """What loading does with the imports."""
    unread: str = ""
    """Why a pickle could not be read to its end."""


def read_metadata(source: Source, dcp: Dcp) -> list[Item]:
    """Where the items lie. Raises CheckpointError."""
    if source.size > LIMIT:
        text = f"is {source.size:,} bytes, over the {LIMIT:,} that the doctor reads of it"
        raise CheckpointError("not-inspectable", text)
    dcp.size = source.size
    try:
        pickled = read_pickle(source.read(source.size, 0))
    except CheckpointError as error:
        dcp.unread = f"{dcp.under}.metadata {error.text}"
        record_imports(dcp, error.imports)
        dcp.actions |= error.actions
        raise
    record_imports(dcp, pickled.imports)
    dcp.actions |= pickled.actions
    fields = attributes(pickled.value)
    described, places = (
        mapping(fields.get("state_dict_metadata")),
        mapping(fields.get("storage_data")),
    )
    if not described or len(places) > MOST_ITEMS:
        raise CheckpointError("damaged", "does not describe any tensors")
    paths = mapping(fields.get("planner_data"))
    for name, each in described.items():
        if type(name) is str:
            dcp.stored[name] = _stored(name, paths.get(name), attributes(each))
    return [_item(dcp, attributes(key), attributes(place)) for key, place in places.items()]


def record_imports(dcp: Dcp, imports: Iterable[str]) -> None:
    """Globals that dcp.load imports, whatever they are."""
    names = dict.fromkeys(imports)
    dcp.imports |= names
    dcp.executed |= dict.fromkeys(
        name for name in names if not (KNOWN.fullmatch(name) or FAMILIAR.fullmatch(name))
    )


def _stored(name: str, path: object, fields: dict[str, object]) -> StoredTensor:
    segments = tuple(members(path)) or (name,)
    if "chunks" not in fields:
        return StoredTensor(name, segments, None, {})
    chunks = {}
    for chunk in members(fields["chunks"]):
        chunk_fields = attributes(chunk)
        chunks[_lengths(chunk_fields.get("offsets"), name)] = _lengths(
            chunk_fields.get("sizes"), name
        )
    return StoredTensor(name, segments, _lengths(fields.get("size"), name), chunks)


def _lengths(value: object, name: str) -> tuple[int, ...]:
    """A torch.Size. Raises CheckpointError."""
    lengths = tuple(members(value))
    if value is None or not all(type(each) is int and 0 <= each < WIDEST for each in lengths):
        raise CheckpointError("damaged", f"describes {shown(name)} without a shape")
    if len(lengths) > 64 or math.prod(lengths) >= WIDEST:
        raise CheckpointError("damaged", f"gives {shown(name)} a shape of more than 2^63 elements")
    return lengths


def _item(dcp: Dcp, key: dict[str, object], place: dict[str, object]) -> Item:
    """One entry of storage_data. Raises CheckpointError."""
    name, file = key.get("fqn"), place.get("relative_path")
    begin, length = place.get("offset"), place.get("length")
    if type(name) is not str or name not in dcp.stored or type(file) is not str:
        raise CheckpointError("damaged", "has a place of something that it does not describe")
    if not (type(begin) is int and type(length) is int and begin >= 0 and length >= 0):
        raise CheckpointError("damaged", f"gives {shown(name)} no range of bytes")
    if place.get("transform_descriptors"):
        raise CheckpointError(
            "not-inspectable", "stores tensors through transforms, such as compression"
        )
    base = posixpath.basename(file)
    if not base or base in (".", "..") or "\0" in base:
        raise CheckpointError("damaged", f"puts {shown(name)} into a file without a name")
    offset = key.get("offset")
    return Item(name, () if offset is None else _lengths(offset, name), base, begin, length)
