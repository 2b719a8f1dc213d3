"""What was recognised at a path: which files hold weights, optimizer state, or neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from doctor._util.units import shown
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.records import Problem


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that have to be read together.

    dcp: a directory of torch.distributed.checkpoint. deepspeed: the files of a ZeRO engine. ranks:
    files of the ranks of tensor or pipeline parallelism, whose tensors have the same names.
    components: the same of the models of a pipeline, each in a directory of its own.
    """

    reader: Literal["dcp", "deepspeed", "ranks", "components"]
    under: str = ""
    """The subdirectory, with a slash at its end; "" for the directory itself."""
    files: tuple[str, ...] = ()
    """Those of `ranks` and `components`, relative to the layout's directory."""
    state: bool = False
    """It holds an optimizer's state and no weights."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The files that hold the weights, relative to `directory`, and the index that names them."""

    directory: Directory
    kind: str
    files: tuple[str, ...] = ()
    """Files of weights that are read one by one."""
    index: str | None = None
    weight_map: dict[str, str] | None = None
    total_size: int | None = None
    """Bytes of all tensors, by the index."""
    problems: tuple[Problem, ...] = ()
    groups: tuple[FileGroup, ...] = ()
    states: tuple[str, ...] = ()
    """Files of an optimizer's state that are read one by one."""
    lone_shard: bool = False
    """One shard of several was named; the others were not read."""
    beside: tuple[str, ...] = ()
    """Files of the same save that hold no weights: optimizer, scheduler, random states."""
    modules: tuple[str, ...] = ()
    """Weights of further modules, and of models that were prepared after the first."""
    pickles: tuple[str, ...] = ()
    """Every file of the directory that is a pickle by its suffix."""


def not_inspectable(directory: Directory, files: list[str], kind: str) -> Layout:
    """A format that is known by name only."""
    are = "are" if kind.endswith("s") else "is"
    name, text = "", f"{kind} {are} not inspectable"
    if len(files) == 1:
        name, text = shown(files[0]), f"holds {kind}, which {are} not inspectable"
    problem = Problem(kind="not-inspectable", file=name, text=text)
    return Layout(directory, kind, tuple(files), problems=(problem,))
