"""Whether the command that continues asks for a resume, and what it opened of its checkpoints."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from doctor.collect.rehearsal.on_disk import is_checkpoint_file
from doctor.facts.rehearsal_runs import OnDisk

RESUMES = {"resume", "autoresume", "continue", "restart"}
LOADS = {"load", "init"}
CHECKPOINTS = {"checkpoint", "ckpt"}
OTHERS = {
    "auto", "enable", "do", "from", "or", "if", "possible", "exists", "available", "last",
    "latest", "training", "train", "trainer", "run", "model", "state", "path", "file", "dir",
    "directory", "args", "config", "cfg",
}  # fmt: skip
"""Further words in the names of such flags. Any other word, such as "download" in
--resume_download or "no" in --no-resume, gives the name another meaning."""
TRUE = {"", "1", "true", "yes", "on", "y", "t", "auto", "last", "latest", "newest"}
"""Values that ask for the newest checkpoint; "" is a flag without a value."""
FLAG = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
SETTING = re.compile(r"\+{0,2}([A-Za-z_][\w.]*)=(.*)", re.DOTALL)
SHELLS = {"sh", "bash", "dash", "zsh"}


def requesting_flag(command: Sequence[str], output: Path, begun: Path | None = None) -> str:
    """The flag that asks for a resume, without its value; "" where none does. `begun`: where the
    command is started, if not here.

    Call it while {output} is as the stopped run left it.
    """
    for flag, name, value in _settings(_without_shell(command)):
        if _requests(name, value.replace("{output}", str(output)), output, begun):
            return flag
    return ""


def requesting_setting(
    settings: Iterable[tuple[str, str]], output: Path, begun: Path | None = None
) -> str:
    """The setting of the program that asks for a resume; "" where none does."""
    return next((f"{n}={v}" for n, v in settings if _requests(n, v, output, begun)), "")


def _requests(name: str, value: str, output: Path, begun: Path | None) -> bool:
    words = set(re.split(r"[_.-]+", name.lower()))
    if words - RESUMES - LOADS - CHECKPOINTS - OTHERS:
        return False
    loads = bool(words & LOADS) or ("from" in words and bool(words & CHECKPOINTS))
    resumes = bool(words & RESUMES)
    return ((resumes or loads) and _is_in(value, output, begun)) or (
        resumes and value.lower() in TRUE
    )


def opened_checkpoint(opened: Iterable[str], checkpoints: Sequence[OnDisk], output: Path) -> str:
    """The first of these paths that belongs to a checkpoint; "" for none."""
    places = {each.path for each in checkpoints if each.weights or each.unread}
    for path in opened:
        name = os.path.relpath(path, output)
        parents = {str(parent) for parent in Path(name).parents} - {"."}
        in_output = "." in places and is_checkpoint_file(Path(name)) and not parents
        if name in places or parents & places or in_output:
            return name
    return ""


def _without_shell(command: Sequence[str]) -> Sequence[str]:
    """The words of the line in `sh -c LINE`, else the command itself."""
    if os.path.basename(command[0]) not in SHELLS or len(command) < 3:
        return command
    if not re.fullmatch(r"-[a-z]*c", command[1]):
        return command
    try:
        return shlex.split(command[2])
    except ValueError:
        return command


def _settings(command: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Flag as written, name and value of --name, --name value, --name=value and name=value."""
    follows_flag = False
    for number, word in enumerate(command):
        after = command[number + 1] if number + 1 < len(command) else "-"
        if flag := FLAG.fullmatch(word):
            value = flag[2] if flag[2] is not None else "" if after.startswith("-") else after
            yield word.partition("=")[0], flag[1], value
            follows_flag = flag[2] is None
        else:
            setting = None if follows_flag else SETTING.fullmatch(word)
            if setting is not None:
                yield word.partition("=")[0], setting[1], setting[2]
            follows_flag = False


def _is_in(path: str, output: Path, begun: Path | None) -> bool:
    """Whether this names something that exists in {output}, or {output} itself."""
    real, root = os.path.realpath(os.path.join(begun or "", path)), os.path.realpath(output)
    return bool(path) and os.path.exists(real) and (real + "/").startswith(root + "/")
