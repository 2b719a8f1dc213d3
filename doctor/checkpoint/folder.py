"""Which files of a folder are the weights, and what can be said of them by their names."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from doctor.checkpoint.files import Folder, LocalFolder, Wrong
from doctor.checkpoint.index import listed, read_index
from doctor.checkpoint.names import shown
from doctor.sections import Problem, Unknown

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_model.safetensors"

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{3,6})-of-(?P<count>\d{3,6})\.safetensors")

_OTHERS = {
    ".bin": "pickled PyTorch weights",
    ".pt": "PyTorch files",
    ".pth": "PyTorch files",
    ".ckpt": "Lightning or TensorFlow checkpoints",
    ".distcp": "a distributed PyTorch checkpoint",
    ".gguf": "GGUF files",
    ".h5": "HDF5 weights",
    ".msgpack": "Flax weights",
    ".nemo": "a NeMo archive",
    ".npz": "numpy archives",
    ".onnx": "ONNX models",
    ".pkl": "pickles",
}

_NOT_WEIGHTS = re.compile(
    r"(?:.*optimizer.*|scheduler|scaler|sampler.*|rng_state.*|random_states.*|training_args)"
    r"\.(?:pt|pth|bin|pkl)"
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The files that hold the weights, relative to `folder`, and the index that names them."""

    folder: Folder
    kind: str
    files: tuple[str, ...]
    index: str | None = None
    weight_map: dict[str, str] | None = None
    problems: tuple[Problem, ...] = ()


def lay_out(path: str) -> Layout | Unknown:
    """The weights at `path`: a file, an index, or a folder whose subfolders are not searched."""
    place = Path(path)
    folder = LocalFolder(place.parent)
    try:
        if place.is_dir():
            return _folder(LocalFolder(place))
        place.lstat()
        if place.name.endswith(".safetensors.index.json"):
            return _indexed(folder, _names(folder), place.name)
    except (OSError, ValueError) as error:
        return Unknown(reason=f"{shown(path, 300)}: {getattr(error, 'strerror', None) or error}")
    except Wrong as wrong:
        return Unknown(reason=f"{shown(path, 300)}: {wrong.text}")
    return _file(folder, place.name)


def _file(folder: Folder, name: str) -> Layout:
    if text := _OTHERS.get(Path(name).suffix):
        return _not_inspectable(folder, [name], text)
    note: tuple[Problem, ...] = ()
    if shard := _SHARD.fullmatch(name):
        text = f"is one of {int(shard['count'])} shards; the others were not looked at"
        note = (Problem(kind="note", file=shown(name), text=text),)
    return Layout(folder, "one safetensors file", (name,), problems=note)


def _names(folder: Folder) -> list[str]:
    """What is inside, files and folders alike."""
    return [name.rstrip("/") for name in folder.names()]


def _folder(folder: Folder) -> Layout | Unknown:
    entries = _names(folder)
    names = [name for name in entries if not name.startswith(".")]
    found = [name for name in names if name.endswith(".safetensors")]
    indexes = [name for name in names if name.endswith(".safetensors.index.json")]
    if indexes:
        return _indexed(folder, names, INDEX if INDEX in indexes else indexes[0])
    if SINGLE in found:
        return Layout(folder, "one safetensors file", (SINGLE,), problems=_beside(SINGLE, found))
    if numbered := _numbered(found):
        return _without_index(folder, numbered)
    if found:
        return _lone(folder, found)
    return _other_formats(folder, names, entries)


def _beside(single: str, found: list[str]) -> tuple[Problem, ...]:
    stray = [name for name in found if _SHARD.fullmatch(name)]
    if not stray:
        return ()
    text = f"lies beside shards that no index names: {listed(stray)}"
    return (Problem(kind="stray", file=single, text=text),)


def _numbered(found: list[str]) -> list[str]:
    """The shards of the largest numbered set."""
    sets = Counter(
        (shard["stem"], shard["count"]) for name in found if (shard := _SHARD.fullmatch(name))
    )
    if not sets:
        return []
    (stem, count), _ = max(sets.items(), key=lambda item: item[1])
    return [name for name in found if re.fullmatch(rf"{re.escape(stem)}-\d+-of-{count}\.s.*", name)]


def _count(name: str) -> int:
    shard = _SHARD.fullmatch(name)
    return int(shard["count"]) if shard else 0


def _without_index(folder: Folder, files: list[str]) -> Layout:
    text = "there is no index: transformers cannot load shards without one"
    problems = [Problem(kind="no-index", file="", text=text)]
    if lacking := _count(files[0]) - len(files):
        text = f"{lacking} of {_count(files[0])} shards are missing"
        problems.append(Problem(kind="missing", file="", text=text))
    return Layout(folder, "safetensors shards", tuple(files), problems=tuple(problems))


def _lone(folder: Folder, found: list[str]) -> Layout:
    """A file of another name; with several, the adapter or the first without a variant."""
    kind = "PEFT adapter" if ADAPTER in found else "one safetensors file"
    plain = sorted(found, key=lambda name: (name != ADAPTER, name.count("."), name))
    note: tuple[Problem, ...] = ()
    if len(found) > 1:
        text = f"is the one of {len(found)} files that was read; name another to examine it"
        note = (Problem(kind="note", file=shown(plain[0]), text=text),)
    return Layout(folder, kind, (plain[0],), problems=note)


def _indexed(folder: Folder, names: list[str], index: str) -> Layout:
    """The shards that an index names; the files on disk where it names none of them."""
    found = [name for name in names if name.endswith(".safetensors") and name[0] != "."]
    numbered = _numbered(found)
    try:
        weight_map = read_index(folder, index)
    except Wrong as wrong:
        problem = Problem(kind=wrong.kind, file=shown(index), text=wrong.text)  # type: ignore[arg-type]
        return Layout(folder, "safetensors shards", tuple(numbered), problems=(problem,))
    named = sorted(set(weight_map.values()))
    absent = [name for name in named if not folder.there(name)]
    whole = numbered if numbered and _count(numbered[0]) == len(numbered) else []
    here = tuple(whole or [name for name in found if name == SINGLE])
    if len(absent) == len(named) and here:
        text = f"names none of the {len(here)} files that are here, which are a complete set"
        stale = Problem(kind="stale-index", file=shown(index), text=text)
        return Layout(folder, "safetensors shards", here, problems=(stale,))
    return Layout(
        folder,
        "safetensors shards",
        tuple(name for name in named if name not in set(absent)),
        index,
        weight_map,
        (*_absent(folder, index, absent, len(named)), *_strays(index, named, found)),
    )


def _absent(folder: Folder, index: str, absent: list[str], total: int) -> list[Problem]:
    if not absent:
        return []
    broken = " (links to files that are not there)" if _linked(folder, absent) else ""
    text = f"names {total} files of which {len(absent)} are missing{broken}: {listed(absent)}"
    return [Problem(kind="missing", file=shown(index), text=text)]


def _linked(folder: Folder, names: list[str]) -> bool:
    return isinstance(folder, LocalFolder) and any((folder.path / n).is_symlink() for n in names)


def _strays(index: str, named: list[str], found: list[str]) -> list[Problem]:
    """Weights that the index does not name, and shards that its own count asks for."""
    problems: list[Problem] = []
    stray = [name for name in set(found) - set(named) if name == SINGLE or _SHARD.fullmatch(name)]
    if SINGLE in stray:
        text = "lies beside the shards of an index, and transformers loads it instead of them"
        problems.append(Problem(kind="stray", file=SINGLE, text=text))
    if others := sorted(set(stray) - {SINGLE}):
        text = f"names none of the stray shards {listed(others)}"
        problems.append(Problem(kind="stray", file=shown(index), text=text))
    counts = {_count(name) for name in named}
    if len(counts) == 1 and (count := counts.pop()) and count != len(named) and not others:
        text = f"names {len(named)} files whose names say that there are {count}"
        problems.append(Problem(kind="stale-index", file=shown(index), text=text))
    return problems


def _other_formats(folder: Folder, names: list[str], entries: list[str]) -> Layout | Unknown:
    weights = [
        name for name in names if Path(name).suffix in _OTHERS and not _NOT_WEIGHTS.fullmatch(name)
    ]
    if ".metadata" in entries or any(name.endswith(".distcp") for name in weights):
        return _not_inspectable(folder, weights, _OTHERS[".distcp"])
    if "latest" in names and any(name.startswith("global_step") for name in names):
        return _not_inspectable(folder, weights, "a DeepSpeed checkpoint")
    if "latest_checkpointed_iteration.txt" in names:
        return _not_inspectable(folder, weights, "a Megatron-LM checkpoint")
    if weights:
        kinds = Counter(_OTHERS[Path(name).suffix] for name in weights)
        return _not_inspectable(folder, weights, kinds.most_common(1)[0][0])
    below = [name for name in names if re.match(r"checkpoint-\d+|snapshots|step-\d+|iter_", name)]
    hint = f"; name a subfolder, such as {shown(below[-1])}" if below else ""
    return Unknown(reason=f"{shown(folder.address, 300)}: no weights are in this folder{hint}")


def _not_inspectable(folder: Folder, files: list[str], kind: str) -> Layout:
    are = "are" if kind.endswith("s") else "is"
    name, text = "", f"{kind} {are} not inspectable yet"
    if len(files) == 1:
        name, text = shown(files[0]), f"holds {kind}, which {are} not inspectable yet"
    problem = Problem(kind="not-inspectable", file=name, text=text)
    return Layout(folder, kind, tuple(files), problems=(problem,))
