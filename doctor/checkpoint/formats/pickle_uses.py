"""What each global of a pickle is, by what the pickle does with it and by who wrote the file.

A list of dangerous names is never complete, so the files beside the weights are judged the other
way round: what trainers, numpy and Python's own random states import is known, and everything else
is named. A class that is restored without a call is worth a note; a function that is called is
what an attack needs, and no trainer's file calls one of its own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from doctor.checkpoint.actions import Actions
from doctor.checkpoint.formats.dangerous_globals import is_dangerous, public
from doctor.checkpoint.formats.weights_only import ALLOWED

Weight = Literal["expected", "unfamiliar", "doubtful", "dangerous"]

_BUILTINS = (
    *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "getattr", "int"),
    *("list", "object", "range", "set", "slice", "str", "tuple", "Ellipsis", "NotImplemented"),
)

EXPECTED = frozenset(
    {"argparse.Namespace", "array._array_reconstructor", "array.array", "codecs.encode"}
    | {"collections.ChainMap", "collections.Counter", "collections.OrderedDict"}
    | {"collections.UserDict", "collections.UserList", "collections.defaultdict"}
    | {"collections.deque", "copyreg.__newobj__", "copyreg.__newobj_ex__"}
    | {"copyreg._reconstructor", "decimal.Decimal", "fractions.Fraction", "functools.partial"}
    | {"io.BytesIO", "itertools.chain", "itertools.count", "itertools.cycle"}
    | {"itertools.repeat", "joblib.numpy_pickle.NumpyArrayWrapper"}
    | {"joblib.numpy_pickle.NDArrayWrapper", "logging.getLogger"}
    | {"numpy.core.numeric._frombuffer", "numpy.dtype", "numpy.ma.core._mareconstruct"}
    | {"numpy.ndarray", "operator.getitem", "operator.itemgetter"}
    | {"pandas._libs.arrays.__pyx_unpickle_NDArrayBacked"}
    | {"pandas._libs.internals._unpickle_block", "pandas._libs.tslibs.offsets._unpickle_offset"}
    | {"pandas._libs.tslibs.timestamps._unpickle_timestamp"}
    | {"pandas.core.indexes.base._new_Index"}
    | {"pandas.core.indexes.datetimes._new_DatetimeIndex", "pathlib._local.PosixPath"}
    | {"pathlib.Path", "pathlib.PosixPath", "pathlib.PurePath", "pathlib.PurePosixPath"}
    | {"pathlib.PureWindowsPath", "pathlib.WindowsPath", "random.Random", "re._compile"}
    | {"re.RegexFlag", "sklearn.tree._tree.Tree", "time.struct_time", "torch.Generator"}
    | {"torch._utils._rebuild_sparse_csr_tensor", "torch.storage._load_from_bytes"}
    | {"types.SimpleNamespace", "uuid.UUID", "zoneinfo.ZoneInfo._unpickle"}
    | {f"builtins.{name}" for name in _BUILTINS}
    | ALLOWED
)
"""What savers of every kind call while they restore an object."""

_EXPECTED = re.compile(
    r"numpy\.(?:_?core\.multiarray\.(?:_reconstruct|scalar)|_core\.numeric\._frombuffer|"
    r"dtypes\.\w+|random\.(?:_pickle|bit_generator|mtrand|_\w+|_generator)\.\w+|matrix|"
    r"matrixlib\.\w+\.matrix)|datetime\.(?:datetime|date|time|timedelta|timezone)|"
    r"collections\.abc\.\w+|typing\.[A-Z]\w*|enum\.\w+|builtins\.\w+(?:Error|Exception)|"
    r"ipaddress\.IPv\w+|torch\.(?:Size|bool|u?int\d+|b?float\w+|complex\d+|strided|sparse_\w+)|"
    r"torch\.distributed\.checkpoint\.(?:metadata|filesystem)\.\w+|"
    r"torch\.distributed\._shard\.sharded_tensor\.metadata\.\w+|torch\._utils\._rebuild_\w+|"
    r"torch\._tensor\._rebuild_from_type_v2|"
    r"(?:sklearn|scipy|pandas)\.(?:\w+\.)*(?:newObj|__pyx_unpickle_\w+)"
)

PLAIN = re.compile(
    r"argparse\.Namespace|types\.SimpleNamespace|datetime\.\w+|uuid\.UUID|decimal\.Decimal"
    r"|fractions\.Fraction|pathlib\.(?:_local\.)?(?:Pure)?(?:Posix|Windows)?Path"
    r"|collections\.(?:defaultdict|deque|ChainMap|abc\.\w+)|copyreg\._reconstructor"
    r"|builtins\.(?:bool|bytes|dict|float|frozenset|int|list|object|range|slice|str|tuple)"
    r"|typing\.[A-Z]\w*|omegaconf\.(?:\w+\.)*[A-Z]\w*|torch\.nn\.modules\.\w+\.\w+Loss"
    r"|numpy\.(?:dtype|ndarray|dtypes\.\w+|_?core\.multiarray\.(?:_reconstruct|scalar))"
)
"""What holds plain values and runs nothing of others, though weights-only loading refuses it."""

TRAINER = re.compile(
    r"(?:transformers|accelerate|trl|peft|sentence_transformers|setfit|diffusers|optimum|torch"
    r"|pytorch_lightning|lightning|lightning_fabric|torchmetrics|omegaconf|deepspeed|datasets"
    r"|tokenizers|megatron|transformer_engine|torchtitan|torchdata|torchvision|timm|axolotl|unsloth"
    r"|llamafactory|swift|sklearn|scipy|pandas)\.(?:\w+\.)*_*[A-Z]\w*"
)
"""Classes of trainers and libraries, which their own files hold."""

LIBRARIES = frozenset(
    {"torch", "numpy", "scipy", "sklearn", "pandas", "joblib", "transformers", "accelerate", "peft"}
    | {"trl", "datasets", "tokenizers", "safetensors", "huggingface_hub", "pytorch_lightning"}
    | {"lightning", "lightning_fabric", "torchvision", "torchaudio", "torchmetrics", "diffusers"}
    | {"matplotlib", "IPython", "jinja2", "yaml", "sympy", "numba", "tqdm", "fsspec", "psutil"}
    | {"networkx", "numexpr", "deepspeed", "timm", "ray", "dask", "pydantic", "click", "typer"}
    | {"jax", "flax", "tensorflow", "keras", "triton", "torchgen", "functorch", "caffe2"}
)
"""Packages that many environments have, so that an attack can count on them."""

_CLASS = re.compile(r"_*[A-Z]\w*")


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads files of one kind beside the weights."""

    files: re.Pattern[str]
    text: str
    """Who reads them, how, since which version."""
    trainer: bool = True
    """A trainer writes them, so that nothing in them calls a function of others."""
    read: bool = True
    """A trainer reads them by itself when it resumes."""


READERS = (
    Reader(re.compile(r"training_args\.bin"), "transformers 5.23 only writes it", read=False),
    Reader(
        re.compile(r"rng_state(?:_\d+)?\.pth"),
        "transformers reads it with weights_only=True since 5.0",
    ),
    Reader(re.compile(r"(?:scheduler|scaler)\.pt"), "transformers reads it with weights_only=True"),
    Reader(
        re.compile(r"random_states_\d+\.pkl|(?:scheduler|sampler|dl_state_dict)(?:_\d+)?\.bin"),
        "accelerate reads it with weights_only=True since 0.34",
    ),
    Reader(
        re.compile(r"custom_checkpoint_\d+\.pkl"),
        "accelerate reads it with weights_only=False",
        trainer=False,
    ),
)

OTHER = Reader(re.compile(r".*"), "who loads it with pickle or joblib runs it", trainer=False)

RESTRICTED = Reader(re.compile(r".*"), "torch.load reads it with weights_only=True since 2.6")
"""Weights and an optimizer's state, of which restricted loading refuses what it does not know."""


def reader_of(file: str) -> Reader:
    """By the name of the file, without its directory."""
    name = file.rpartition("/")[2]
    return next((reader for reader in READERS if reader.files.fullmatch(name)), OTHER)


@dataclass(slots=True)
class Weighed:
    """The globals of one file that are not expected."""

    dangerous: list[str] = field(default_factory=list)
    """Known to run code, or called although no saver calls it."""
    doubtful: list[str] = field(default_factory=list)
    unfamiliar: list[str] = field(default_factory=list)


def weigh(imports: Iterable[str], actions: Actions, reader: Reader) -> Weighed:
    """Each global by what it is, what is done with it and by the file that it is in."""
    weighed = Weighed()
    lists = {
        "dangerous": weighed.dangerous,
        "doubtful": weighed.doubtful,
        "unfamiliar": weighed.unfamiliar,
    }
    for name in imports:
        weight = _weight(name, actions, reader)
        if weight != "expected":
            lists[weight].append(name)
    return weighed


def _weight(name: str, actions: Actions, reader: Reader) -> Weight:
    if is_dangerous(name):
        return "dangerous"
    if name in EXPECTED or public(name) in EXPECTED or _EXPECTED.fullmatch(name):
        return "expected"
    called = name in actions.called or name in actions.valued
    if name == "builtins.type":
        return "dangerous" if name in actions.called else "expected"
    standard = public(name).partition(".")[0] in sys.stdlib_module_names
    if standard and not name.startswith("__main__.") and (called or name in actions.made):
        return "dangerous"
    if reader is RESTRICTED:
        return "expected"  # refused names are listed as such
    familiar = bool(TRAINER.fullmatch(name))
    if not called:
        return "expected" if familiar else "unfamiliar"
    return _weight_of_call(name, name in actions.called, familiar, reader)


def _weight_of_call(name: str, with_values: bool, familiar: bool, reader: Reader) -> Weight:
    """`with_values`: not as a member of an enumeration is restored, with one plain value."""
    top, last = name.partition(".")[0], name.rpartition(".")[2]
    likely = reader.trainer or top in LIBRARIES
    if not _CLASS.fullmatch(last):
        return "dangerous" if likely else "doubtful"
    if not with_values:
        return "expected" if familiar else "doubtful" if reader.read else "unfamiliar"
    if familiar and not reader.trainer:
        return "doubtful"
    return "dangerous" if likely else "doubtful"
