"""What is wrong with the files of a checkpoint, from its layout to its values."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from doctor._util.units import shown
from doctor.checkpoint.agreement import is_library, one_of_several
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.file_type import LOOK, describe_file_type
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.layouts.layout import Layout
from doctor.checkpoint.layouts.rank_files import rank_problems
from doctor.checkpoint.layouts.shard_index import disagreements, sizes_differ
from doctor.checkpoint.reader import LayoutContents
from doctor.checkpoint.records import Problem
from doctor.checkpoint.tensors import Tensor


def problems_of(
    layout: Layout, contents: LayoutContents, tensors: list[Tensor], described: bool
) -> Iterator[Problem]:
    yield from layout.problems
    for shard in contents.all_shards:
        yield from shard.problems
    yield from disagreements(layout.index, layout.weight_map, contents.shards)
    yield from sizes_differ(layout.index, layout.total_size, layout.weight_map, contents.shards)
    yield from rank_problems(layout.directory) if one_of_several(layout) else ()
    files = {*layout.files}
    own = [each for each in tensors if not layout.groups or each.file in files]  # no engine's
    yield from _without_values(layout, contents, own, described)
    yield from _pointers(layout)


TOKENIZER = (
    *("tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"),
    *("vocab.json", "vocab.txt", "merges.txt"),
)
RESUMED = re.compile(r"(?:scheduler|scaler|rng_state(?:_\d+)?|random_states_\d+)\.\w+")


def _pointers(layout: Layout) -> Iterator[Problem]:
    """Files of the tokenizer and of the trainer in whose place lies what git stores of them."""
    if not isinstance(layout.directory, LocalDirectory):
        return
    for name in (*filter(RESUMED.fullmatch, layout.beside), *TOKENIZER):
        with contextlib.suppress(CheckpointError), layout.directory.open(name) as source:
            found = describe_file_type(source.read(min(LOOK, source.size), 0)) or ""
            if found.startswith("a git-LFS pointer"):
                yield Problem(kind="disguised", file=shown(name), text=f"is {found}")


def _without_values(
    layout: Layout, contents: LayoutContents, tensors: list[Tensor], described: bool
) -> list[Problem]:
    """The problem of files of a model or an adapter that were read and hold nothing."""
    adapter = layout.kind.endswith("PEFT adapter")
    whole = layout.files and not (layout.lone_shard or one_of_several(layout))
    readable = all(shard.readable for shard in contents.shards)
    writer = any(shard.writer for shard in contents.shards)  # with a place for the weights
    model = adapter or writer or (described and is_library(contents))
    if not (whole and readable and model) or any(tensor.elements for tensor in tensors):
        return []
    text = "holds no tensor: an empty state dict was saved"
    if tensors:
        text = f"holds {len(tensors):,} tensors, none with a value, as parameters that were not "
        text += "gathered from the ranks of ZeRO-3 or FSDP leave it"
    return [Problem(kind="empty", file=shown(layout.files[0]), text=text)]
