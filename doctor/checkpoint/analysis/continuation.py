"""The files of a checkpoint, as the framework that wrote it resumes from them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.optimizer_state import read_state
from doctor.checkpoint.formats.torch_files import Tree, read_tree
from doctor.checkpoint.formats.torch_tensors import is_tensor
from doctor.checkpoint.io.files import Directory, LocalDirectory, read_json
from doctor.checkpoint.layouts.file_names import STATES
from doctor.checkpoint.pickle.nodes import attributes, mapping, members
from doctor.checkpoint.records import Checkpoint, Continuation, Optimizer

STATE_LIMIT = 64 << 20
CONFIG_LIMIT = 2 << 20

MOST_ITEMS = 100

TRAINER = {"optimizer.pt", "training_args.bin"}
"""Files of transformers' Trainer, where its state is missing."""

ACCELERATE = {"optimizer.bin", "scheduler.bin"}
"""Files of accelerate, where its random states are missing."""

_RANK_FILES = re.compile(r"rng_state_(\d+)\.pth|random_states_(\d+)\.pkl")
_ZERO_RANK = re.compile(r"(?:bf16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_DCP_FILE = re.compile(r"__(\d+)_\d+\.distcp")
_STEP_NAME = re.compile(r"(?:checkpoint|step|global_step|iter)[-_]?0*(\d+)")

PIECES = {
    "optimizer": re.compile(r"optim|^opt(?:_|$)", re.IGNORECASE),
    "scheduler": re.compile(r"sched", re.IGNORECASE),
    "scaler": re.compile(r"scaler|MixedPrecision|^amp(?:_|$)"),
    "random state": re.compile(r"rng|random_state|random$", re.IGNORECASE),
    "loop state": re.compile(r"loops|train_state|dataloader|sampler"),
}
"""What the names at the top of a checkpoint in one file have in them."""


BESIDE = {
    "optimizer": STATES,
    "scheduler": re.compile(r"(?:lr_)?scheduler\.(?:pt|pth|bin)"),
}
"""Files of pieces, beside a file with the weights alone."""


SETTINGS = re.compile(r"conf|cfg|args|param|name|class|type", re.IGNORECASE)
"""Parts of names of what a piece was made with: optimizer_config, scheduler_kwargs."""

EPOCHS = ("epoch", "epochs", "current_epoch", "last_epoch", "start_epoch", "epoch_idx")
"""Names of a counter of epochs at the top of a file."""


@dataclass(slots=True)
class _Findings:
    """Fields of a Continuation, as they are found."""

    pieces: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)


def read_continuation(
    directory: Directory, files: Iterable[str], checkpoint: Checkpoint
) -> Continuation:
    """`files` hold the weights. Never raises for what is in the files."""
    names = _names(directory)
    found = _Findings()
    framework = _recognized(directory, names, list(files), checkpoint, found)
    optimizer = checkpoint.training.optimizer
    if isinstance(optimizer, Optimizer):
        found.pieces["optimizer"] = found.pieces.get("optimizer") or shown(optimizer.file)
        if optimizer.step_max is not None and optimizer.step_max == int(optimizer.step_max):
            found.counts["optimizer"] = int(optimizer.step_max)
    if match := _STEP_NAME.fullmatch(directory.address.rstrip("/").rpartition("/")[2]):
        found.counts["directory"] = int(match[1])
    beside = (name for names in checkpoint.loading.beside.values() for name in names)
    imports = {*found.imports, *checkpoint.loading.imports, *beside}
    return Continuation(
        framework=framework,
        pieces=found.pieces,
        unread=found.unread,
        counts=found.counts,
        numpy_core=any(name.startswith("numpy._core.") for name in imports),
        **found.rest,
    )


def _names(directory: Directory) -> list[str]:
    try:
        return directory.names()
    except CheckpointError:
        return []


def _recognized(
    directory: Directory,
    names: list[str],
    files: list[str],
    checkpoint: Checkpoint,
    found: _Findings,
) -> str:
    """The framework, with what its files show in `found`."""
    _config(directory, names, found)
    engine = next((name for name in names if name.startswith("global_step")), "")
    if "trainer_state.json" in names or TRAINER.issubset(names):
        _trainer(directory, names, found)
        if engine:
            _zero(directory, engine, found)
        return "transformers Trainer" + " with DeepSpeed" * bool(engine)
    if any(name.startswith("random_states_") for name in names) or ACCELERATE.issubset(names):
        _accelerate(directory, names, found)
        return "accelerate"
    if "latest" in names or any(_ZERO_RANK.fullmatch(name) for name in names):
        _zero(directory, engine, found)
        return "DeepSpeed"
    if ".metadata" in names:
        _distributed(names, checkpoint, found)
        return "torch.distributed.checkpoint"
    if len(files) == 1 and not files[0].endswith((".safetensors", ".gguf")):
        writer = _one_file(directory, files[0], found)
        if writer == "torch.save":
            _files_beside(directory, names, found)
        return writer
    return ""


def _config(directory: Directory, names: list[str], found: _Findings) -> None:
    if "config.json" in names:
        with contextlib.suppress(CheckpointError):
            config = read_json(directory, "config.json", CONFIG_LIMIT)
            version = config.get("transformers_version")
            if isinstance(version, str):
                found.rest.setdefault("versions", {})["transformers"] = shown(version, 40)


def _trainer(directory: Directory, names: list[str], found: _Findings) -> None:
    found.pieces["loop state"] = ""
    folder = next((name for name in names if name.startswith("optimizer_")), "")
    engine = next((name for name in names if name.startswith("global_step")), "")
    _place(found, names, "optimizer", "optimizer.pt", "optimizer.bin", folder, engine)
    _place(found, names, "scheduler", "scheduler.pt")
    _place(found, names, "scaler", "scaler.pt")
    _ranks(found, names, "rng_state.pth")
    _piece_files(directory, found)
    if "trainer_state.json" not in names:
        return
    found.pieces["loop state"] = "trainer_state.json"
    try:
        state = read_json(directory, "trainer_state.json", STATE_LIMIT)
    except CheckpointError as error:
        found.unread["loop state"] = error.text
        return
    _count(found, "trainer_state.json", state.get("global_step"))
    found.rest["best_gone"] = _best_gone(directory, state.get("best_model_checkpoint"))
    for key, name in (
        ("max_steps", "max_steps"),
        ("num_train_epochs", "epochs"),
        ("train_batch_size", "batch_size"),
    ):
        if (number := _whole(state.get(key))) is not None and number > 0:
            found.rest[name] = number


def _best_gone(directory: Directory, best: object) -> str:
    """The name of the best checkpoint that is not beside this one, where others are."""
    name = best.rstrip("/").rpartition("/")[2] if isinstance(best, str) else ""
    here = directory.address.rstrip("/")
    if not (isinstance(directory, LocalDirectory) and _STEP_NAME.fullmatch(name)):
        return ""
    beside = {each.rstrip("/") for each in _names(LocalDirectory(directory.path.resolve().parent))}
    others = [each for each in beside - {here.rpartition("/")[2]} if _STEP_NAME.fullmatch(each)]
    return shown(name, 60) if others and name not in beside else ""


def _accelerate(directory: Directory, names: list[str], found: _Findings) -> None:
    folder = next((name for name in names if name.startswith("optimizer_")), "")
    _place(found, names, "optimizer", "optimizer.bin", "optimizer.pt", folder)
    _place(found, names, "scheduler", "scheduler.bin")
    _place(found, names, "scaler", "scaler.pt")
    _ranks(found, names, "")
    _piece_files(directory, found)


def _place(found: _Findings, names: list[str], piece: str, *candidates: str) -> None:
    here = {name.rstrip("/") for name in names}
    found.pieces[piece] = next(
        (shown(each.rstrip("/")) for each in candidates if each and each.rstrip("/") in here), ""
    )


def _ranks(found: _Findings, names: list[str], single: str) -> None:
    """Processes by their files of random states."""
    ranks = {int(m[1] or m[2]) for name in names if (m := _RANK_FILES.fullmatch(name))}
    if ranks:
        found.rest["ranks"] = max(ranks) + 1
        found.rest["random_ranks"] = len(ranks)
        found.pieces["random state"] = f"{len(ranks)} files"
    elif single and single in names:
        found.rest["ranks"] = found.rest["random_ranks"] = 1
        found.pieces["random state"] = single
    else:
        found.pieces["random state"] = ""


def _piece_files(directory: Directory, found: _Findings) -> None:
    for piece, read in (("scheduler", _scheduler), ("scaler", _scale)):
        if (file := found.pieces.get(piece)) and (tree := _tree(directory, file, found)):
            read(tree.value, found)


def _tree(directory: Directory, file: str, found: _Findings) -> Tree | None:
    piece = next((name for name, each in found.pieces.items() if each == file), file)
    try:
        with directory.open(file) as source:
            tree = read_tree(source, file)
    except CheckpointError as error:
        found.unread[piece] = error.text
        return None
    found.imports |= set(tree.imports)
    return tree


def _scheduler(node: object, found: _Findings) -> None:
    state = mapping(node)
    if not state:
        return
    _count(found, "scheduler", state.get("last_epoch"))
    found.rest["epoch_scheduler"] = "num_bad_epochs" in state
    rates = members(state.get("_last_lr"))[:MOST_ITEMS]
    if rates and all(type(rate) is float and math.isfinite(rate) for rate in rates):
        found.rest["last_lr"] = tuple(rates)
    for key in ("total_steps", "T_max", "total_iters"):
        end = _whole(state.get(key))
        if end is not None and end > 0:
            found.rest["scheduler_end"], found.rest["one_cycle"] = end, key == "total_steps"
            return


def _by_epoch(top: dict[object, object], found: _Findings) -> None:
    """Whether the scheduler counts what the file calls epochs, from 0 or from 1."""
    counted = found.counts.get("scheduler")
    epoch = next((_whole(top[key]) for key in EPOCHS if key in top), None)
    if counted is not None and epoch is not None and counted in (epoch, epoch + 1):
        found.rest["epoch_scheduler"] = True


def _scale(node: object, found: _Findings) -> None:
    value = mapping(node).get("scale")
    if isinstance(value, float | int) and not isinstance(value, bool):
        found.rest["scale"] = float(value)


def _zero(directory: Directory, engine: str, found: _Findings) -> None:
    """The ranks of a DeepSpeed engine, which load the number of partitions that they wrote."""
    inside = _names(directory.inside(engine)) if engine else _names(directory)
    ranks = {int(match[1]) for name in inside if (match := _ZERO_RANK.fullmatch(name))}
    universal = any(name.rstrip("/") == "zero" for name in inside)
    states = [name for name in inside if name.endswith("_optim_states.pt")]
    models = [name for name in inside if name.endswith("_model_states.pt")]
    found.pieces["optimizer"] = shown(states[0] if states else "zero/" * universal)
    if models and not states and not universal:
        found.pieces["optimizer"] = shown(models[0])
    if ranks:
        found.rest["ranks"], found.rest["reshards"] = max(ranks) + 1, universal
    elif universal:
        found.rest["reshards"] = True
    if match := _STEP_NAME.fullmatch(engine.rstrip("/")):
        found.counts["DeepSpeed"] = int(match[1])


def _distributed(names: list[str], checkpoint: Checkpoint, found: _Findings) -> None:
    ranks = {int(match[1]) for name in names if (match := _DCP_FILE.fullmatch(name))}
    if ranks:
        found.rest["ranks"] = max(ranks) + 1
    if checkpoint.training.optimizer is None:
        found.pieces["optimizer"] = ""
    if checkpoint.training.steps is not None:
        found.counts["checkpoint"] = checkpoint.training.steps


def _one_file(directory: Directory, file: str, found: _Findings) -> str:
    """A file of torch.save with everything in it."""
    tree = _tree(directory, file, found)
    if tree is None:
        return "torch.save"
    top = mapping(tree.value)
    for piece, pattern in PIECES.items():
        keys = [k for k in top if type(k) is str and pattern.search(k) and not SETTINGS.search(k)]
        named = [top[key] for key in keys]
        held = next(filter(_is_state, named), None)
        found.pieces[piece] = "" if held is None else shown(file)
        if piece == "scheduler":
            several = (held, *members(held)[:MOST_ITEMS])
            _scheduler(next((e for e in several if "last_epoch" in mapping(e)), None), found)
            _by_epoch(top, found)
        elif piece == "scaler":
            _scale(held, found)
    if (step := tree.step()) is not None:
        found.counts["checkpoint"] = step
    return _writer(tree.writer(), top, file, found)


def _files_beside(directory: Directory, names: list[str], found: _Findings) -> None:
    """What a program keeps in files of their own beside the one with the weights."""
    for piece, pattern in BESIDE.items():
        file = next((name for name in names if pattern.fullmatch(name)), "")
        if found.pieces.get(piece) or not file:
            continue
        found.pieces[piece] = shown(file)
        tree = _tree(directory, file, found)
        if tree and piece == "scheduler":
            _scheduler(tree.value, found)
        elif tree and not tree.optimizers():
            found.pieces[piece] = ""
        elif tree and (step := _optimizer_step(directory, file, tree)) is not None:
            found.counts["optimizer"] = step


def _optimizer_step(directory: Directory, file: str, tree: Tree) -> int | None:
    with contextlib.suppress(CheckpointError), directory.open(file) as source:
        state = read_state(tree, file, source)
        steps = [entry.step for entry in state.entries if entry.step is not None] if state else []
        return _whole(max(steps, default=None))
    return None


def _is_state(held: object) -> bool:
    return bool(mapping(held) or members(held) or attributes(held)) or is_tensor(held)


def _writer(writer: str, top: dict[object, object], file: str, found: _Findings) -> str:
    if writer.startswith("Lightning"):
        version = top.get("pytorch-lightning_version")
        if type(version) is str:
            found.rest.setdefault("versions", {})["lightning"] = shown(version, 40)
        if "lr_schedulers" in top:  # empty without a schedule, and required all the same
            found.pieces["scheduler"] = shown(file)
        return "Lightning"
    if writer.startswith("nanoGPT"):
        found.pieces["scheduler"] = found.pieces["loop state"] = shown(file)
        return "nanoGPT"
    return "torch.save"


def _count(found: _Findings, where: str, value: object) -> None:
    if (number := _whole(value)) is not None:
        found.counts[where] = number


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < 2**53 and value == int(value) else None
