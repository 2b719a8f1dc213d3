"""What torch.save wrote, in either of its forms: the tree of its pickle, and its weights.

torch_objects.py documents the use of a `Tree`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.optimizer_state import read_state
from doctor.checkpoint.formats.pickle_inventory import (
    extra_records,
    nested_inventory,
    pickles_behind,
    take_inventory,
)
from doctor.checkpoint.formats.torch_legacy import legacy_tree
from doctor.checkpoint.formats.torch_objects import Tree
from doctor.checkpoint.formats.torch_settings import idle_averages, named_sizes
from doctor.checkpoint.formats.torch_zip import TORCHSCRIPT, zip_tree
from doctor.checkpoint.formats.weights_only import refused
from doctor.checkpoint.inventory import Inventory
from doctor.checkpoint.io.files import Source
from doctor.checkpoint.pickle.nodes import gc_paused, mapping
from doctor.checkpoint.records import Problem
from doctor.checkpoint.tensors import Shard, Tensor

__all__ = ["Tree", "read_torch", "read_tree"]


USUAL = re.compile(r"cpu|cuda(?::0)?|meta")
"""Locations of storages that nearly every machine for training can restore."""

OWN = re.compile(r"__torch__\.|torch\.jit\._pickle\.")
"""Globals of TorchScript's programs: torch.jit.load finds them in the file, and imports none."""


def read_tree(source: Source, file: str) -> Tree:
    """What a torch file holds. Raises CheckpointError."""
    zipped = source.read(4, 0) == b"PK\x03\x04"
    tree = zip_tree(source, file) if zipped else legacy_tree(source, file)
    if tree.pickled.nested:
        inner = nested_inventory(tree.pickled.nested, file)
        names = dict.fromkeys((*tree.pickled.imports, *inner.imports))
        actions = tree.pickled.actions | inner.actions
        tree.pickled = replace(tree.pickled, imports=tuple(names), actions=actions)
        tree.nested_unread = inner.incomplete
    return tree


def read_torch(source: Source, file: str) -> Shard:
    """The weights and the optimizer of one open file; what is wrong with it is in `problems`."""
    try:
        with gc_paused():
            return _shard(source, file)
    except CheckpointError as error:
        problem = error.problem(file)
        shard = Shard(file, source.size, problems=(problem,), readable=False)
        return with_inventory(shard, source)


def with_inventory(shard: Shard, source: Source) -> Shard:
    """A file that could not be read as a torch file, with the globals of the pickles in it."""
    inventory = take_inventory(source, shard.file)
    if not inventory.pickles and not inventory.incomplete:
        return replace(shard, unread=shard.problems[0].text if shard.problems else "")
    imports = tuple(inventory.imports)
    program = any(problem.text == TORCHSCRIPT for problem in shard.problems)
    return replace(
        shard,
        imports=imports,
        refused=refused([name for name in imports if not (program and OWN.match(name))]),
        actions=inventory.actions,
        protocol=inventory.protocol,
        unread=inventory.incomplete,
        pickled=inventory.pickles > 0,
    )


def _shard(source: Source, file: str) -> Shard:
    tree = read_tree(source, file)
    weights, further = tree.weights_and_further()
    tensors = sorted(weights, key=lambda tensor: (tensor.begin, tensor.end))
    optimizer = read_state(tree, file, source)
    top = mapping(tree.value)
    problems = (
        *tree.problems,
        *_further(file, further),
        *_elsewhere(tree),
        *_misspelled(file, top),
    )
    return Shard(
        file,
        source.size,
        tuple(tensors),
        further=tuple(further),
        problems=problems,
        readable=all(
            problem.kind in ("note", "misspelled", "unloadable", "other-device")
            for problem in problems
        ),
        imports=tree.imports,
        refused=tree.refused,
        actions=tree.actions,
        idle=_idle(tree, source, file),
        protocol=tree.pickled.protocol,
        unread=tree.nested_unread,
        optimizer=optimizer,
        step=tree.step(),
        epoch=tree.epoch(),
        scale=tree.scale(),
        writer=tree.writer(),
        named_sizes=named_sizes(top),
        idle_averages=(*idle_averages(top, tree.step()), *_idle_modules(tree, further, source)),
    )


def _idle_modules(tree: Tree, further: Sequence[Tensor], source: Source) -> Iterator[str]:
    """Counters of torch's AveragedModel that are 0 although steps were taken."""
    for tensor in further:
        counter = tensor.name.endswith(".n_averaged") and tensor.dtype == "I64"
        if counter and not tensor.shape and tree.step():
            data = source.read(tensor.end - tensor.begin, tensor.begin)
            if not any(data):
                yield shown(tensor.name, 60)


def _idle(tree: Tree, source: Source, file: str) -> tuple[Inventory, ...]:
    """Pickles in the file that torch.load does not read."""
    behind = pickles_behind(tree.behind, f"{file}, behind its first pickle")
    extra = extra_records(source, f"{file}, in records of other programs", tree.extra)
    return tuple(one for one in (behind, extra) if one.pickles)


def _elsewhere(tree: Tree) -> Iterator[Problem]:
    """Storages of a device that few machines have, where torch.load puts them by default."""
    ids = [reference.id for reference in tree.pickled.persistent]
    tags = (each[3] for each in ids if type(each) is tuple and len(each) >= 5)
    places = sorted({tag for tag in tags if type(tag) is str and not USUAL.fullmatch(tag)})
    if places:
        text = f"was saved from {', '.join(shown(place, 40) for place in places[:3])}"
        yield Problem(kind="other-device", file=shown(tree.file), text=text)


SLIPS = re.compile(
    r"(.*_|)(?:tate_dict|sate_dict|stte_dict|stae_dict|stat_dict|state_ict|state_dct|state_dit"
    r"|state_dic|tsate_dict|satte_dict|sttae_dict|staet_dict|state_idct|state_dcit|state_ditc)"
)
"""A key that lacks one letter of state_dict, or has two neighbours exchanged."""


def _misspelled(file: str, top: Iterable[object]) -> Iterator[Problem]:
    """The first key that is one slip away from a state_dict's."""
    for key in top:
        if type(key) is str and (match := SLIPS.fullmatch(key)):
            text = f"has the key {shown(key, 80)}, and {shown(match[1], 80)}state_dict is usual"
            yield Problem(kind="misspelled", file=shown(file), text=text)
            return


def _further(file: str, tensors: Sequence[Tensor]) -> Iterator[Problem]:
    """A note that names the state_dicts beside the weights."""
    counts = Counter(tensor.name.partition(".")[0] for tensor in tensors)
    if counts:
        each = ", ".join(f"{shown(name)} ({count:,})" for name, count in counts.most_common(3))
        more = f" and {len(counts) - 3:,} more" if len(counts) > 3 else ""
        text = f"holds {len(tensors):,} tensors beside the weights: {each}{more}"
        yield Problem(kind="note", file=shown(file), text=text)
