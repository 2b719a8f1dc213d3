"""Where a rehearsal may write, and where it must not be."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from doctor._util.errors import UserError
from doctor._util.units import printable

NAME = "doctor-rehearsal"
ROOT = re.compile(rf"{NAME}-\d+")
MARKER = "DOCTOR_REHEARSAL"
MARKER_TEXT = (
    "Made by doctor rehearse: a command was run here in small. No checkpoint below this directory "
    "is a result of a training, and it can be removed.\n"
)
MOST_ENTRIES = 2000
"""Entries of a directory in which checkpoints are looked for."""
MOST_LINKS = 5000
"""Of --in-output, below the directories of the working directory, so that a large data set takes no
time."""
DIRECTORY = re.compile(
    r"checkpoint[-_]\d+|ckpt[-_]?\d+|global_step[-_]?\d+|iter_\d+|(epoch|step)[=_-]?\d+([=_-].*)?"
)
"""Names of directories that hold a checkpoint."""
STATE = re.compile(r"trainer_state\.json|latest_checkpointed_iteration\.txt|\.metadata")
WEIGHTS = re.compile(r".*\.(safetensors|ckpt|pt|pth|distcp)|pytorch_model.*\.bin")
"""Names of files; weights may also be those of a model that somebody downloaded."""
DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
    "/dev/pts", "/dev/fuse", "/dev/kfd", "/dev/dri/*", "/dev/nvidia*", "/dev/nvidia-caps/*",
    "/dev/infiniband/*", "/dev/gdrdrv", "/dev/dxg", "/dev/accel/*",
)  # fmt: skip
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where torch's workers share tensors
CACHES = {
    "HF_HUB_CACHE": "~/.cache/huggingface/hub",
    "HF_DATASETS_CACHE": "~/.cache/huggingface/datasets",
    "HF_MODULES_CACHE": "~/.cache/huggingface/modules", "HF_XET_CACHE": "~/.cache/huggingface/xet",
    "TORCH_HOME": "~/.cache/torch", "TORCH_EXTENSIONS_DIR": "~/.cache/torch_extensions",
    "TORCHINDUCTOR_CACHE_DIR": "", "TRITON_CACHE_DIR": "~/.triton", "NUMBA_CACHE_DIR": "",
    "CUDA_CACHE_PATH": "~/.nv/ComputeCache", "MPLCONFIGDIR": "~/.config/matplotlib",
    "TRANSFORMERS_CACHE": "", "TOKENIZERS_CACHE": "",
}  # fmt: skip
"""Variable -> the directory without it."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """The directories of one rehearsal."""

    root: Path
    scratch: Path
    """Temporary files of the command, in a short path of its own."""

    @property
    def outputs(self) -> Path:
        """{output} of both chains of runs is below it."""
        return self.root / "outputs"

    def output(self, chain: str) -> Path:
        """{output} of a chain: "run", or "stop" for what is stopped and continued."""
        return self.outputs / chain

    def records(self, run: str) -> Path:
        """The records of one run."""
        return self.root / "records" / run

    def remove(self, *, logs: bool) -> None:
        """Remove everything, or everything but the records."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.rmtree(self.outputs if logs else self.root, ignore_errors=True)
        if not logs:
            base = self.root.parent
            with contextlib.suppress(OSError):
                if {each.name for each in base.iterdir()} == {MARKER}:  # ours, and empty
                    (base / MARKER).unlink()
                    base.rmdir()


def make_workplace(output_dir: Path | None) -> Workplace:
    """New, marked directories below `output_dir`. Raises UserError in or beside a real run."""
    base = Path(os.path.abspath(output_dir or NAME))
    if found := find_run(base):
        raise UserError(
            f"--output-dir {printable(str(base))} is in or beside a run: {printable(found)}; name "
            "a directory elsewhere, so that nothing resumes from a rehearsal"
        )
    made_base = not base.exists()
    try:
        root = _new(base)
        scratch = Path(tempfile.mkdtemp(prefix="doctor-"))
        for path in (root / "records", root / "outputs"):
            path.mkdir()
        own_base = [base] if made_base else []
        for path in (*own_base, root, root / "records", root / "outputs", scratch):
            with contextlib.suppress(FileExistsError), open(path / MARKER, "x") as file:
                file.write(MARKER_TEXT)
    except OSError as error:
        raise UserError(f"--output-dir {printable(str(base))}: {error.strerror or error}") from None
    return Workplace(root, scratch)


def _new(base: Path) -> Path:
    base.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        root = base / f"{NAME}-{number}"
        with contextlib.suppress(FileExistsError):
            root.mkdir(0o700)
            return root
    raise AssertionError


def link_working_directory(workplace: Workplace, output: Path) -> None:
    """The directories of the working directory in `output`, with links to their files.

    So a new file in any of them is one of {output}. Hidden directories, large ones and those that
    MOST_LINKS leaves no room for are links as a whole. Rehearsals are left out. Raises UserError.
    """
    here, waiting, room = Path.cwd(), [Path.cwd()], MOST_LINKS
    try:
        for source in waiting:
            target, deeper = output / source.relative_to(here), source != here
            most = min(MOST_ENTRIES, room) if deeper else None
            entries = _listed(source, most)
            if entries is None and deeper:
                target.symlink_to(source)
                continue
            target.mkdir(exist_ok=True)
            room -= len(entries or ()) if deeper else 0
            for entry in entries or ():
                if _is_followed(entry) and len(waiting) < MOST_LINKS:
                    waiting.append(Path(entry.path))
                elif entry.name != MARKER and not _is_root(entry):
                    (target / entry.name).symlink_to(entry.path)
    except OSError as error:
        what = printable(str(error.filename2 or error.filename or output))
        raise UserError(f"--in-output: {what}: {error.strerror or error}") from None


def _is_followed(entry: os.DirEntry[str]) -> bool:
    hidden = entry.name.startswith(".")
    return not hidden and entry.is_dir(follow_symlinks=False) and not _is_root(entry)


def _is_root(entry: os.DirEntry[str]) -> bool:
    """Whether this is the root of a rehearsal, this one or another."""
    return bool(ROOT.fullmatch(entry.name)) and os.path.exists(os.path.join(entry.path, MARKER))


def _listed(directory: Path, most: int | None) -> list[os.DirEntry[str]] | None:
    """The entries of a directory; None for one that has more, or that cannot be listed."""
    try:
        with os.scandir(directory) as entries:
            listed = list(itertools.islice(entries, None if most is None else most + 1))
    except OSError:
        return None
    return None if most is not None and len(listed) > most else listed


def find_run(base: Path) -> str:
    """What a run has left in this directory, in one above it or beside it; "" for nothing.

    Weights alone count only in the directory itself, and beside it unless that is the working
    directory, into which people download models. So do the runs beside it.
    """
    directory = Path(os.path.realpath(base))
    temporary = Path(os.path.realpath(tempfile.gettempdir()))
    above = itertools.takewhile(lambda p: p not in (temporary, p.parent), directory.parents)
    parent = directory.parent
    beside = parent not in (Path(os.path.realpath(".")), temporary, parent.parent)
    siblings = [Path(each) for each in _entries(parent) if each.is_dir()] if beside else []
    examined = [
        (directory, True),
        (parent, beside),
        *((path, False) for path in above),
        *((path, True) for path in siblings if path != directory),
    ]
    found = (_checkpoint_in(path, weights=weights) for path, weights in examined)
    return next(filter(None, found), "")


def _checkpoint_in(directory: Path, *, weights: bool) -> str:
    if _is_rehearsed(directory):
        return ""
    for entry in _entries(directory):
        if STATE.fullmatch(entry.name) or (weights and WEIGHTS.fullmatch(entry.name)):
            return entry.path
        if DIRECTORY.fullmatch(entry.name) and entry.is_dir():
            return entry.path
    return ""


def _is_rehearsed(directory: Path) -> bool:
    """Whether it is the root of a rehearsal, or below one."""
    real = Path(os.path.realpath(directory))
    return any(ROOT.fullmatch(p.name) and (p / MARKER).exists() for p in (real, *real.parents))


def holds_run(path: str) -> bool:
    """Whether a file or directory, or the one that it is in, has checkpoints."""
    here = Path(path)
    places = [here] if here.is_dir() else []
    return any(_checkpoint_in(place, weights=True) for place in [*places, here.parent])


def _entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            yield from itertools.islice(entries, MOST_ENTRIES)
    except OSError:
        return


def writable(workplace: Workplace, environ: Mapping[str, str], more: tuple[Path, ...]) -> list[str]:
    """What the command may write: its outputs, temporary files, caches, and `more`.

    A cache that holds the home or the working directory is left out.
    """
    caches = [str(path) for path in _caches(environ)]
    own = [workplace.outputs, workplace.root / "records", workplace.scratch]
    others = [os.path.realpath(each) for each in (*caches, *map(str, more))]
    return [*map(str, own), SHARED_MEMORY, *others]


def _caches(environ: Mapping[str, str]) -> Iterator[Path]:
    home = environ.get("HF_HOME", "")
    for variable, default in CACHES.items():
        value = environ.get(variable) or default
        if variable.startswith("HF_") and home and not environ.get(variable):
            value = os.path.join(home, Path(default).name)
        if value:
            path = Path(value).expanduser()
            keep = [Path.cwd(), Path.home()]
            if path.is_dir() and not any(each.is_relative_to(path.resolve()) for each in keep):
                yield path


def devices() -> list[str]:
    """Devices that the command may write to: none that is a disk."""
    return [path for pattern in DEVICES for path in glob.glob(pattern)]
