"""What torch.save wrote, in either of its forms: the tree of its pickle, and its weights.

torch_objects.py documents the use of a `Tree`.
"""

from __future__ import annotations

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.optimizer_state import read_state
from doctor.checkpoint.formats.torch_legacy import legacy_tree
from doctor.checkpoint.formats.torch_objects import Tree
from doctor.checkpoint.formats.torch_zip import zip_tree
from doctor.checkpoint.io.files import Source
from doctor.checkpoint.pickle.nodes import gc_paused
from doctor.checkpoint.tensors import Shard

__all__ = ["Tree", "read_torch", "read_tree"]


def read_tree(source: Source, file: str) -> Tree:
    """What a torch file holds. Raises CheckpointError."""
    if source.read(4, 0) == b"PK\x03\x04":
        return zip_tree(source, file)
    return legacy_tree(source, file)


def read_torch(source: Source, file: str) -> Shard:
    """The weights and the optimizer of one open file; what is wrong with it is in `problems`."""
    try:
        with gc_paused():
            return _shard(source, file)
    except CheckpointError as error:
        problem = error.problem(file)
        return Shard(file, source.size, problems=(problem,), readable=False)


def _shard(source: Source, file: str) -> Shard:
    tree = read_tree(source, file)
    tensors = sorted(tree.weights(), key=lambda tensor: (tensor.begin, tensor.end))
    optimizer = read_state(tree, file, source)
    problems = tree.problems
    return Shard(
        file,
        source.size,
        tuple(tensors),
        problems=problems,
        readable=all(problem.kind == "note" for problem in problems),
        imports=tree.imports,
        refused=tree.refused,
        optimizer=optimizer,
        step=tree.step(),
        writer=tree.writer(),
    )
