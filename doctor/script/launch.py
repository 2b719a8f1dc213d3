"""Commands in shell scripts, Makefiles and Dockerfiles that start a Python script."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from doctor.facts.script import Launch
from doctor.script.discover import Files

LIMIT = 1 << 20
PROGRAM = re.compile(
    r"(?:^|[\s;&|(`@\"'\[/])(python[\d.]*|torchrun|accelerate|deepspeed)(?=[\s\"',])"
)
JSON_LIST = re.compile(r'\[\s*"')
"""A command of a Dockerfile written as a list."""
CONTINUED = re.compile(r"\\\r?\n")


def read_launches(path: str, data: bytes) -> Iterator[tuple[str, Launch]]:
    """Script and launch of each command in a file; commands that cannot be split are left out."""
    if len(data) > LIMIT or b".py" not in data:
        return
    text = data.decode("utf-8", "replace")
    line = 1
    for command in _commands(text):
        lines = command.count("\n")
        if JSON_LIST.search(command):
            command = re.sub(r'[\[\]",]', " ", command)
        if (
            ".py" in command
            and not command.lstrip().startswith("#")
            and (match := PROGRAM.search(command))
        ):
            launch = _launch(path, line, match[1], command[match.start(1) :])
            if launch is not None:
                yield launch
        line += lines


def _commands(text: str) -> Iterator[str]:
    """Logical lines: those that end in a backslash go on."""
    current = ""
    for line in text.splitlines(keepends=True):
        current += line
        if not line.rstrip("\r\n").endswith("\\"):
            yield current
            current = ""
    if current:
        yield current


def _launch(path: str, line: int, program: str, command: str) -> tuple[str, Launch] | None:
    command = CONTINUED.sub(" ", command)
    words = words_of(command)
    scripts = [n for n, word in enumerate(words) if word.endswith(".py")]
    if not scripts:
        return None
    first = scripts[0]
    name = re.sub(r"[\d.]+$", "", program)
    if name == "python" and "torch.distributed" in " ".join(words[:first]):
        name = "torchrun"
    launch = Launch(path, line, name, flags_of(words[first + 1 :]), flags_of(words[1:first]))
    return words[first], launch


def words_of(command: str) -> list[str]:
    """Words up to the end of the command."""
    import shlex

    lexer = shlex.shlex(command.strip(), posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    try:
        for word in lexer:
            if word and set(word) <= set(";&|<>"):
                break
            words.append(word)
    except ValueError:
        return words
    return words


def flags_of(words: list[str]) -> dict[str, str]:
    """--flag value, --flag=value and --flag; dashes within a name become underscores."""
    flags: dict[str, str] = {}
    name = ""
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            name = name.replace("-", "_")
            flags[name] = value
            name = "" if equals else name
        elif name and not (word.startswith("-") and word[1:2].isalpha()):
            flags[name] = word
            name = ""
        else:
            name = ""
    return flags


def bind(launches: Mapping[str, list[tuple[str, Launch]]], script: str) -> tuple[Launch, ...]:
    """The launches of one script. `launches` is by base name of the script."""
    results = []
    for named, launch in launches.get(os.path.basename(script), ()):
        here = os.path.normpath(os.path.join(os.path.dirname(launch.path), named))
        wanted = os.path.normpath(script)
        if here == wanted or wanted.endswith("/" + _plain(named)) or wanted == _plain(named):
            results.append(launch)
    return tuple(results)


def _plain(named: str) -> str:
    """The script as written, without variables and leading dots."""
    return re.sub(r"^(?:(?:\.{1,2}|\$\{?\w+\}?|~)/)+", "", os.path.normpath(named))


def named_launchers(paths: Sequence[str], files: Files) -> tuple[str, ...]:
    """Shell scripts that are named alone, as by a hook: they are read for what they start."""
    named = {os.path.normpath(path) for path in paths}
    return files.launchers if named and named <= set(files.launchers) else ()


def with_started(paths: Sequence[str], files: Files) -> Files:
    """Where shell scripts are named alone, the scripts that they start, if they are at hand."""
    started: dict[str, None] = {}
    for path in named_launchers(paths, files) if not files.scripts else ():
        try:
            data = files.read(path)
        except OSError:
            continue
        for script, _ in read_launches(path, data):
            for folder in ("", os.path.dirname(path)):
                candidate = os.path.normpath(os.path.join(folder, script))
                if os.path.isfile(candidate):
                    started[candidate] = None
    return replace(files, scripts=tuple(started)) if started else files
