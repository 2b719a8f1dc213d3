"""Which files of a directory are the weights, by their names."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path

from doctor._util.errors import reason_of
from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.addresses import locate
from doctor.checkpoint.io.file_type import LOOK, holds_weights
from doctor.checkpoint.io.files import Directory, LocalDirectory
from doctor.checkpoint.io.urls import is_address, redact_url
from doctor.checkpoint.layouts import shards
from doctor.checkpoint.layouts.archive import KIND, archive, archived
from doctor.checkpoint.layouts.file_names import (
    ADAPTERS,
    FSDP_RANK,
    INDEXES,
    NAMED_DIRECTORIES,
    NAMED_ONLY,
    NOT_WEIGHTS,
    ONE,
    PICKLED,
    STATES,
    TENSOR_PARALLEL,
    TORCH,
)
from doctor.checkpoint.layouts.hints import below, incomplete_downloads, snapshot
from doctor.checkpoint.layouts.layout import FileGroup, Layout, not_inspectable
from doctor.checkpoint.layouts.lone_files import lone
from doctor.checkpoint.layouts.modules import missing_modules, module_weights
from doctor.checkpoint.layouts.parallel import FSDP, distributed, zero_state
from doctor.checkpoint.layouts.pipeline import pipeline
from doctor.checkpoint.layouts.unread_formats import (
    MOST_LOOKED_INTO,
    other_suffix,
    tensorflow,
    unread_format,
)
from doctor.checkpoint.records import Problem


def find_layout(path: str) -> Layout | Unknown:
    """The weights at `path`: a file, an index, or a directory, without its subdirectories.

    `path` can be an address of any scheme that `io.addresses` reads.
    """
    if is_address(path):
        return _at_address(path)
    place = Path(path)
    directory = LocalDirectory(place.parent)
    try:
        if place.is_dir():
            return _directory(LocalDirectory(place), place.name)
        place.lstat()
        if place.name.endswith(INDEXES):
            return _indexed(directory, _names(directory), place.name)
    except (OSError, ValueError) as error:
        return Unknown(reason=f"{shown(path, 300)}: {reason_of(error)}")
    except CheckpointError as error:
        return Unknown(reason=f"{shown(path, 300)}: {error.text}")
    return _file(directory, place.name)


def _at_address(address: str) -> Layout | Unknown:
    try:
        directory, name = locate(address)
        if not name:
            return _directory(directory, redact_url(address).rstrip("/").rpartition("/")[2])
        if name.endswith(INDEXES):
            return _indexed(directory, _names(directory), name)
        with directory.open(name):
            return _file(directory, name)
    except CheckpointError as error:
        return Unknown(reason=f"{shown(redact_url(address), 300)} {error.text}")


def _file(directory: Directory, name: str) -> Layout:
    """A file that was named: what is in it decides how it is read, not its name."""
    ends = Path(name).suffix
    if name == ".metadata" or ends == ".distcp":
        return distributed(directory, [".metadata"], "") or not_inspectable(
            directory, [name], "a shard"
        )
    if (text := NAMED_ONLY.get(ends)) and not _begins_as_weights(directory, name):
        return unread_format(directory, [name], text)
    if isinstance(directory, LocalDirectory) and (found := archive(directory, name)):
        return found
    if STATES.fullmatch(name):
        return Layout(directory, "an optimizer's state", states=(name,))
    note: tuple[Problem, ...] = ()
    if count := shards.shard_count(name):
        text = f"is one of {count} shards; the others were not read"
        note = (Problem(kind="note", file=shown(name), text=text),)
    kind = "PEFT adapter" if name in ADAPTERS else ONE.get(ends, "one file")
    return Layout(directory, kind, (name,), problems=note, lone_shard=bool(note))


def _names(directory: Directory) -> list[str]:
    """What is inside, files and directories alike."""
    return [name.rstrip("/") for name in directory.names()]


def _directory(directory: Directory, called: str) -> Layout | Unknown:
    entries = _names(directory)
    names = [name for name in entries if not name.startswith(".")]
    layout = _weights(directory, names, entries, called)
    partial = incomplete_downloads(directory, entries)
    if layout is None and (revision := snapshot(directory, names)):
        inside = directory.inside(f"snapshots/{revision}")
        nested = _directory(inside, revision)
        if isinstance(nested, Unknown):
            return nested
        return replace(nested, problems=(*nested.problems, *partial))
    if layout is None:
        return _no_weights(directory, names, partial)
    layout = replace(layout, problems=(*layout.problems, *partial))
    return _with_other_files(layout, names)


def _weights(
    directory: Directory, names: list[str], entries: list[str], called: str
) -> Layout | None:
    """The first of the ways to keep weights that the directory shows."""
    model = _model(directory, names, ".safetensors")
    if model and not (".metadata" in entries and any(n.endswith(".distcp") for n in names)):
        return model
    if layout := distributed(directory, entries, called) or _model(directory, names, ".bin"):
        return layout
    if layout := pipeline(directory, entries, _weights):
        return layout
    for way in (
        _ranks,
        _gguf,
        _lone_pickle,
        _archive,
        _by_content,
        _states_alone,
        tensorflow,
        other_suffix,
        _adapter_alone,
    ):
        if layout := way(directory, names):
            return layout
    return _recognized_only(directory, entries)


def _model(directory: Directory, names: list[str], ends: str) -> Layout | None:
    """A model as save_pretrained writes it: an index, the whole file, shards, or an adapter."""
    files = [name for name in names if name.endswith(ends) and not NOT_WEIGHTS.fullmatch(name)]
    indexes = [name for name in names if name.endswith(f"{ends}.index.json")]
    whole = shards.WHOLE[ends]
    if indexes:
        usual = f"{whole}.index.json"
        return shards.indexed_layout(
            directory, names, usual if usual in indexes else indexes[0], ends
        )
    if whole in files:
        kind = ONE[ends] if ends == ".safetensors" else "one pytorch_model.bin"
        return Layout(directory, kind, (whole,), problems=shards.stray_shards(whole, files))
    if numbered := shards.numbered_shards(files):
        return shards.unindexed_layout(directory, numbered, ends)
    if (files and ends == ".safetensors") or set(ADAPTERS) & set(files):
        return lone(directory, files, ends)
    return None


def _indexed(directory: Directory, names: list[str], index: str) -> Layout:
    ends = ".bin" if index.endswith(INDEXES[1]) else ".safetensors"
    return _with_other_files(shards.indexed_layout(directory, names, index, ends), names)


def _ranks(directory: Directory, names: list[str]) -> Layout | None:
    """Files in which every rank has tensors of the same names."""
    for pattern, kind in (
        (TENSOR_PARALLEL, "consolidated.NN.pth as Meta and torchtune write"),
        (FSDP_RANK, "FSDP, one file for each rank (LOCAL_STATE_DICT)"),
    ):
        files = tuple(name for name in names if pattern.fullmatch(name))
        if len(files) == 1:
            return Layout(directory, kind, files)
        if files:
            return Layout(directory, kind, groups=(FileGroup("ranks", files=files),))
    full = [name for name in names if re.fullmatch(r"pytorch_model(?:_\d+)?_fsdp\.bin", name)]
    return Layout(directory, f"{FSDP} (FULL_STATE_DICT)", (full[0],)) if full else None


def _gguf(directory: Directory, names: list[str]) -> Layout | None:
    files = [name for name in names if name.endswith(".gguf")]
    if not files:
        return None
    if numbered := shards.numbered_shards(files):
        problems = tuple(shards.missing_shards(numbered))
        return Layout(directory, "GGUF shards", tuple(numbered), problems=problems)
    return lone(directory, files, ".gguf")


def _recognized_only(directory: Directory, entries: list[str]) -> Layout | None:
    for name in entries:
        if kind := NAMED_DIRECTORIES.get(name):
            return not_inspectable(directory, [], kind)
    return None


def _lone_pickle(directory: Directory, names: list[str]) -> Layout | None:
    """One .ckpt, .pt, .pth or .bin of any name; Lightning, nanoGPT and everyone's own."""
    for ends in TORCH:
        files = [name for name in names if name.endswith(ends) and not NOT_WEIGHTS.fullmatch(name)]
        if files:
            return lone(directory, files, ends)
    return None


def _by_content(directory: Directory, names: list[str]) -> Layout | None:
    """Files of any name that begin as weights do: model_best.pth.tar, epoch_10, net.params."""
    if not isinstance(directory, LocalDirectory):
        return None
    found = []
    for name in [each for each in names if not NOT_WEIGHTS.fullmatch(each)][:MOST_LOOKED_INTO]:
        if _begins_as_weights(directory, name):
            found.append(name)
    return lone(directory, found, ".pt") if found else None


def _begins_as_weights(directory: Directory, name: str) -> bool:
    with contextlib.suppress(CheckpointError), directory.open(name) as source:
        return holds_weights(source.read(min(LOOK, source.size), 0))
    return False


OF_A_MODEL = ("adapter_config.json", "config.json", "trainer_state.json")
"""Files that a save of weights writes, too."""


def _states_alone(directory: Directory, names: list[str]) -> Layout | None:
    states = [name for name in names if STATES.fullmatch(name)]
    if not states:
        return None
    described = next((name for name in OF_A_MODEL if name in names), "")
    text = f"lies beside {described}, and no file of weights does"
    problem = Problem(kind="weightless", file=shown(states[0]), text=text)
    kind = "an optimizer's state without weights"
    return Layout(directory, kind, problems=(problem,) if described else ())


def _archive(directory: Directory, names: list[str]) -> Layout | None:
    return archived(directory, names) if isinstance(directory, LocalDirectory) else None


def _adapter_alone(directory: Directory, names: list[str]) -> Layout | None:
    """The configuration of an adapter without the adapter, here or in a directory below."""
    named = "adapter_config.json"
    if named not in names or below(directory, names):
        return None
    text = "describes an adapter, and no file of its weights is here"
    problem = Problem(kind="weightless", file=named, text=text)
    return Layout(directory, "PEFT adapter without weights", problems=(problem,))


def _no_weights(directory: Directory, names: list[str], partial: tuple[Problem, ...]) -> Unknown:
    stopped = "".join(f"; {problem.text}" for problem in partial)
    text = f"no weights are in this directory{stopped}{below(directory, names)}"
    return Unknown(reason=f"{shown(directory.address, 300)}: {text}")


def _with_other_files(layout: Layout, names: list[str]) -> Layout:
    """The weights with what the trainer saved beside them."""
    if layout.kind == KIND:
        return layout
    states = tuple(name for name in names if STATES.fullmatch(name))
    beside = tuple(name for name in names if NOT_WEIGHTS.fullmatch(name))
    zero, untagged = zero_state(layout, names)
    return replace(
        layout,
        kind=_saved_by(names, layout.kind),
        states=layout.states or states,
        beside=beside,
        pickles=tuple(name for name in names if PICKLED.fullmatch(name)),
        groups=(*layout.groups, *zero),
        problems=(*layout.problems, *untagged, *missing_modules(layout.directory, names)),
        modules=module_weights(layout.directory, names),
    )


def _saved_by(names: list[str], kind: str) -> str:
    if "trainer_state.json" in names:
        return f"HF Trainer checkpoint, {kind}"
    if any(re.fullmatch(r"random_states_\d+\.pkl", name) for name in names):
        return f"Accelerate save_state, {kind}"
    return kind
