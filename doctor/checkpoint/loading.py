"""What loading a checkpoint with torch.load, or the files beside it by their readers, would do."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from doctor._util.units import shown
from doctor.checkpoint.formats.dangerous_globals import is_dangerous
from doctor.checkpoint.formats.pickle_uses import OTHER, PLAIN, RESTRICTED, Reader, reader_of, weigh
from doctor.checkpoint.formats.weights_only import ALLOWED, refused
from doctor.checkpoint.reader import LayoutContents
from doctor.checkpoint.records import Loading, OwnCode
from doctor.checkpoint.tensors import Shard

NO_CODE = OwnCode()

MOST_NAMES = 1_000
"""Names of globals and of files that are kept."""

HOLDERS = ALLOWED | {"numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer"}
"""What holds plain values, beside PLAIN."""

OF_PICKLE = re.compile(r".+\.(?:pkl|pk|pickle|dill|joblib|sav)")
"""Names of what is loaded with pickle or joblib, unless torch.save wrote it."""

WEIGHTS_BESIDE = re.compile(
    r"(?:.*/)?(?:pytorch_model|adapter_model|model|consolidated|diffusion_pytorch_model)"
    r"[\w.-]*\.(?:bin|pt|pth|ckpt)"
)
"""Weights that were not read, such as stale ones beside a newer save."""


def describe_loading(contents: LayoutContents, own: OwnCode = NO_CODE) -> Loading:
    """By the globals of every pickle and what is done with them."""
    shards = contents.all_shards
    beside = [*contents.beside, *(one for shard in shards for one in shard.idle)]
    imports = _unique(shard.imports for shard in shards)
    stale = [one for one in beside if WEIGHTS_BESIDE.fullmatch(one.file)]
    groups = [*(shard.imports for shard in shards), *(tuple(one.imports) for one in beside)]
    unread = [
        *((shard.file, shard.unread) for shard in shards if shard.unread),
        *((one.file, one.incomplete) for one in beside if one.incomplete),
    ]
    actions = [
        *((shard.file, shard.actions) for shard in shards),
        *((one.file, one.actions) for one in beside),
    ]
    weighed = [
        *((shard.file, weigh(shard.imports, shard.actions, _reader(shard))) for shard in shards),
        *((one.file, weigh(one.imports, one.actions, reader_of(one.file))) for one in beside),
    ]
    dangerous = _unique(tuple(filter(is_dangerous, group)) for group in groups)
    return Loading(
        pickles=contents.pickles,
        imports=imports,
        refused=_unique(
            [
                *(shard.refused for shard in shards if not _is_of_no_torch(shard)),
                *(refused(one.imports) for one in stale),
            ]
        ),
        plain=tuple(
            shown(shard.file) for shard in shards if _is_of_no_torch(shard) and not shard.unread
        )[:MOST_NAMES],
        executed=_unique(shard.executed for shard in shards),
        dangerous=dangerous,
        protocol=max((shard.protocol for shard in shards), default=0),
        beside={shown(one.file): _unique([tuple(one.imports)]) for one in beside[:MOST_NAMES]},
        called=_by_file((file, each.dangerous) for file, each in weighed),
        tricks=_by_file((file, sorted(each.tricks)) for file, each in actions),
        doubtful=_by_file((file, each.doubtful) for file, each in weighed),
        unfamiliar=_by_file((file, each.unfamiliar) for file, each in weighed),
        unread=tuple(f"{shown(file)} {reason}" for file, reason in unread[:MOST_NAMES]),
        own=own,
    )


def _reader(shard: Shard) -> Reader:
    """Who reads a file of weights: dcp.load unpickles objects without restriction."""
    return OTHER if shard.executed or _is_of_no_torch(shard) else RESTRICTED


def _is_of_no_torch(shard: Shard) -> bool:
    """Whether it is a pickle without anything of torch that torch.load is not meant for: by its
    name, or because it holds containers and numpy's arrays alone."""
    if not shard.pickled or shard.readable:
        return False
    if any(name.startswith(("torch", "__torch__")) for name in shard.imports):
        return False
    holds_values = all(PLAIN.fullmatch(name) or name in HOLDERS for name in shard.imports)
    return bool(OF_PICKLE.fullmatch(shard.file)) or (holds_values and not shard.unread)


def _by_file(names: Iterable[tuple[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """Without the files for which there are none."""
    listed = ((shown(file), _unique([tuple(each)])) for file, each in names if each)
    return dict(itertools.islice(listed, MOST_NAMES))


def _unique(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Each name once, in the order of first occurrence."""
    names = dict.fromkeys(name for group in groups for name in group)
    return tuple(shown(name, 200) for name in list(names)[:MOST_NAMES])
