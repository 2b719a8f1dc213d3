"""Layouts that training on several GPUs leaves: DCP, FSDP, torchtitan, DeepSpeed, Megatron."""

from __future__ import annotations

import contextlib
import re
from pathlib import PurePosixPath

from doctor._util.units import listed, shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, read_json
from doctor.checkpoint.layouts.layout import FileGroup, Layout, not_inspectable
from doctor.checkpoint.records import Problem

FSDP = "FSDP of Accelerate"

TAG_LIMIT = 4096
"""Bytes of a tracker file that are read: it holds one word."""

_WEIGHTS = re.compile(r"pytorch_model_fsdp_\d+")
_STATE = re.compile(r"optimizer_\d+")
_RANK = re.compile(r"mp_rank_\d{2,}(?:_\d{3,})*")
_TAGGED = re.compile(r"global_step\d+")
_ENGINE = re.compile(r"mp_rank_\d+_model_states\.pt|.*zero_pp_rank_\d+_mp_rank_\d+_.*_states\.pt")
_MEGATRON = ("model_optim_rng.pt", "model_rng.pt")


def distributed(directory: Directory, entries: list[str], called: str) -> Layout | None:
    """Weights that lie in parts, one or more for every rank; None where no such are here."""
    if ".metadata" in entries or any(name.endswith(".distcp") for name in entries):
        return _dcp(directory, entries, called)
    if fsdp := _fsdp(directory, entries):
        return fsdp
    if engine := _deepspeed(directory, entries):
        return engine
    return _megatron(directory, entries)


def _dcp(directory: Directory, entries: list[str], called: str, under: str = "") -> Layout:
    """One directory of torch.distributed.checkpoint, and who wrote it by what lies beside."""
    kind = "torch.distributed.checkpoint"
    if "metadata.json" in entries:
        kind = f"Megatron distributed checkpoint ({kind})"
    elif "meta.pt" in entries:
        kind = f"sharded Lightning checkpoint ({kind})"
    elif re.fullmatch(r"step-\d+", called):
        kind = f"torchtitan checkpoint ({kind})"
    elif _WEIGHTS.fullmatch(called):
        kind = f"{FSDP} ({kind})"
    elif _STATE.fullmatch(called):
        kind = f"optimizer state ({kind})"
    if ".metadata" not in entries:
        text = "is missing: it lists the tensors of the .distcp files"
        problem = Problem(kind="missing", file=f"{under}.metadata", text=text)
        return Layout(directory, kind, problems=(problem,))
    return Layout(directory, kind, groups=(FileGroup("dcp", under),))


def _fsdp(directory: Directory, entries: list[str]) -> Layout | None:
    """Accelerate's and Trainer's subdirectories, one for the weights, one for the optimizer."""
    weights = [name for name in entries if _WEIGHTS.fullmatch(name)]
    if not weights:
        return None
    states = [name for name in entries if _STATE.fullmatch(name)]
    groups = [FileGroup("dcp", f"{name}/") for name in weights]
    groups += [FileGroup("dcp", f"{name}/", state=True) for name in states]
    return Layout(directory, f"{FSDP} (torch.distributed.checkpoint)", groups=tuple(groups))


def _deepspeed(directory: Directory, entries: list[str]) -> Layout | None:
    """An engine's directory, or the one above it, whose `latest` names it."""
    if any(_ENGINE.fullmatch(name) for name in entries):
        return Layout(directory, "DeepSpeed checkpoint", groups=(FileGroup("deepspeed"),))
    tag = _latest(directory, entries)
    if isinstance(tag, Problem):
        return Layout(directory, "DeepSpeed checkpoint", problems=(tag,))
    if tag is None:
        return None
    return Layout(directory, "DeepSpeed checkpoint", groups=(FileGroup("deepspeed", f"{tag}/"),))


def _latest(directory: Directory, entries: list[str]) -> str | Problem | None:
    """The subdirectory that `latest` names, or what is wrong with it; None where there is none."""
    below = [name for name in entries if re.fullmatch(r"global_step\d+(?:_universal)?", name)]
    tracker = next((name for name in ("latest", "latest_universal") if name in entries), None)
    if tracker is None or not (below or "zero_to_fp32.py" in entries):
        return None
    try:
        tag = _word(directory, tracker)
    except CheckpointError as error:
        return Problem(kind="missing", file=tracker, text=error.text)
    if tag not in entries:
        here = f"; {listed(below[-2:], 2)} is" if below else ""
        text = f"names {shown(tag)}, which is not here{here}"
        return Problem(kind="untagged" if below else "missing", file=tracker, text=text)
    return tag


def _word(directory: Directory, name: str) -> str:
    """The word in a tracker file. Raises CheckpointError."""
    with directory.open(name) as source:
        data = source.read(TAG_LIMIT, 0)
    word = data.decode("utf-8", "replace").strip()
    if not word or "/" in word or "\0" in word or word in (".", ".."):
        raise CheckpointError("damaged", "does not name a directory")
    return word


def _megatron(directory: Directory, entries: list[str]) -> Layout | None:
    """Directories of tensor- and pipeline-parallel ranks, in the tracker's iteration."""
    tracker = "latest_checkpointed_iteration.txt"
    if tracker in entries:
        try:
            word = _word(directory, tracker)
            under = f"iter_{int(word):07d}" if word.isascii() and word.isdecimal() else word
            inside = [name.rstrip("/") for name in directory.inside(under).names()]
        except (CheckpointError, ValueError) as error:
            text = (
                error.text if isinstance(error, CheckpointError) else "does not name an iteration"
            )
            kind = "Megatron-LM checkpoint"
            here = [name for name in entries if re.fullmatch(r"iter_\d{7}", name)]
            rest = f"; {listed(here[-2:], 2)} is here" if here else ""
            problem = Problem(
                kind="untagged" if here else "missing",
                file=tracker,
                text=f"names a directory that {text}{rest}",
            )
            return Layout(directory, kind, problems=(problem,))
        return _iteration(directory, inside, f"{under}/")
    if any(_RANK.fullmatch(name) for name in entries) or "metadata.json" in entries:
        return _iteration(directory, entries, "")
    return None


def _iteration(directory: Directory, entries: list[str], under: str) -> Layout | None:
    if ".metadata" in entries:
        return _dcp(directory, [*entries, "metadata.json"], "", under)
    files = []
    for rank in sorted(name for name in entries if _RANK.fullmatch(name)):
        for name in _MEGATRON:
            if directory.exists(f"{under}{rank}/{name}"):
                files.append(f"{under}{rank}/{name}")
                break
    if files:
        ranks = FileGroup("ranks", under, tuple(files))
        return Layout(directory, "Megatron-LM checkpoint", groups=(ranks,))
    metadata = {}
    with contextlib.suppress(CheckpointError):
        metadata = read_json(directory, f"{under}metadata.json", TAG_LIMIT)
    if metadata.get("sharded_backend") == "zarr":
        return not_inspectable(directory, [], "a Megatron distributed checkpoint of zarr arrays")
    if "sharded_backend" not in metadata and not any(_RANK.fullmatch(name) for name in entries):
        return None
    text = "has no model_optim_rng.pt in its mp_rank directories"
    problem = Problem(kind="missing", file=str(PurePosixPath(under)), text=text)
    return Layout(directory, "Megatron-LM checkpoint", problems=(problem,))


def zero_state(
    layout: Layout, names: list[str]
) -> tuple[tuple[FileGroup, ...], tuple[Problem, ...]]:
    """DeepSpeed's engine beside a model's weights, as transformers' Trainer leaves it.

    And what keeps DeepSpeed from finding it: it reads the directory's name in `latest`.
    """
    if any(each.reader == "deepspeed" for each in layout.groups):
        return (), ()
    if any(_ENGINE.fullmatch(name) for name in names):
        return (FileGroup("deepspeed", state=True),), ()
    tag = _latest(layout.directory, names)
    if isinstance(tag, str):
        return (FileGroup("deepspeed", f"{tag}/", state=True),), ()
    engines = [name for name in names if _TAGGED.fullmatch(name)]
    if not engines or "trainer_state.json" not in names:
        return (), ()
    text = "names no directory" if "latest" in names else "is missing"
    problem = Problem(
        kind="untagged", file="latest", text=f"{text}, and DeepSpeed looks there for {engines[-1]}"
    )
    return (FileGroup("deepspeed", f"{engines[-1]}/", state=True),), (problem,)
