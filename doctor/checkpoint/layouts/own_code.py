"""Code of a model's own: Python files that trust_remote_code runs, and chat templates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.python_code import Read, When, read_calls
from doctor.checkpoint.io.files import Directory, LocalDirectory, read_json, read_whole
from doctor.checkpoint.layouts.chat_template import texts
from doctor.checkpoint.records import CodeCall, OwnCode

FURTHER = (
    "tokenizer_config.json", "preprocessor_config.json", "processor_config.json",
    "video_preprocessor_config.json", "generation_config.json", "model_index.json",
)  # fmt: skip
"""Files beside config.json that name code."""

GENERATE = "custom_generate/generate.py"
LIMIT, JSON_LIMIT, MOST_FILES = 1 << 20, 8 << 20, 200
DEEPEST = 3
"""Times that the files are read, each time with the functions that others were seen to call."""

MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")

ENDS = {"{{": "}}", "{%": "%}"}
"""What begins and ends what a template computes; the rest is text."""

INTERNALS = re.compile(
    r"(?:\b[\w.]{0,60}\.)?__(?:class|globals|subclasses|mro|bases?|init|import|builtins|dict|code"
    r"|getattribute|loader|func|self|reduce|reduce_ex)__|\\x5f\\x5f|\\u005f\\u005f"
    r"|\bos\.(?:system|popen)\b|\.popen\("
)
"""Python's internals, which a template of messages has no use for."""


def read_own_code(
    directory: Directory, config: dict[str, Any], held_texts: Sequence[tuple[str, str]] = ()
) -> OwnCode:
    """By syntax: nothing is imported or rendered. Of an address, only what config.json names.

    `held_texts`: the chat templates in files of weights, each with its file.
    """
    local = isinstance(directory, LocalDirectory)
    held = {name: _json(directory, name) for name in FURTHER} if local else {}
    named = [name for each in (config, *held.values()) for name in _references(each)]
    others = dict.fromkeys(shown(name, 100) for name in named if "--" in name)
    modules = [name for name in named if "--" not in name and MODULE.fullmatch(name)]
    queue = [f"{name.rpartition('.')[0].replace('.', '/')}.py" for name in modules]
    if local:
        further = [GENERATE, *_parts(held["model_index.json"])]
        queue += [name for name in further if directory.exists(name)]
    files, calls, unread = _follow(directory, queue)
    return OwnCode(
        files=files,
        calls=calls,
        unread=unread,
        elsewhere=tuple(others)[:MOST_FILES],
        template=tuple(
            _reaches([*held_texts, *(texts(directory, held[FURTHER[0]]) if local else ())])
        ),
    )


def _follow(
    directory: Directory, queue: list[str]
) -> tuple[tuple[str, ...], tuple[CodeCall, ...], tuple[str, ...]]:
    """The files and those that they import beside them; their calls; what could not be read."""
    files: dict[str, None] = {}
    calls: dict[str, tuple[CodeCall, ...]] = {}
    unread: dict[str, None] = {}
    entered: dict[str, dict[str, When]] = {}
    reads: dict[str, tuple[dict[str, When], Read]] = {}
    for _ in range(DEEPEST):
        before = sum(map(len, entered.values()))
        files, waiting = {}, [*queue]
        while waiting and len(files) < MOST_FILES:
            name = waiting.pop(0)
            if name in files:
                continue
            files[name] = None
            try:
                known = dict(entered.get(name, {}))
                if name not in reads or reads[name][0] != known:
                    data = read_whole(directory, name, LIMIT)
                    reads[name] = known, read_calls(shown(name, 100), data, known)
                found = reads[name][1]
            except CheckpointError as error:
                unread[f"{shown(name, 100)} {error.text}"] = None
                continue
            calls[name] = found.calls
            waiting += [_beside(name, each) for each in found.beside]
            for module, function in found.entered:
                entered.setdefault(_beside(name, module), {})[function] = "import"
        if sum(map(len, entered.values())) == before:
            break
    every = tuple(call for found in calls.values() for call in found)
    return tuple(shown(name, 100) for name in files), every, tuple(unread)


def _beside(name: str, module: str) -> str:
    """The file of a module that the file `name` imports from beside itself."""
    folder = name.rpartition("/")[0]
    return f"{folder}{'/' * bool(folder)}{module.replace('.', '/')}.py"


def _references(settings: dict[str, Any]) -> Iterator[str]:
    """ "module.Class" of auto_map and of pipelines."""
    automatic, pipelines = settings.get("auto_map"), settings.get("custom_pipelines")
    values = [*automatic.values()] if isinstance(automatic, dict) else [automatic]
    if isinstance(pipelines, dict):
        values += [each.get("impl") for each in pipelines.values() if isinstance(each, dict)]
    for value in values:
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str) and "." in each:
                yield each


def _parts(index: dict[str, Any]) -> Iterator[str]:
    """Files of a pipeline of diffusers that may hold classes of its own."""
    for part, value in index.items():
        module = value[0] if isinstance(value, list) and value else None
        if isinstance(module, str) and MODULE.fullmatch(module) and "/" not in part:
            yield f"{module}.py" if part == "_class_name" else f"{part}/{module}.py"


def _json(directory: Directory, name: str) -> dict[str, Any]:
    try:
        return read_json(directory, name, JSON_LIMIT)
    except CheckpointError:
        return {}


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Where the expressions and statements of a template begin and end, in linear time."""
    at, open_kinds = 0, dict(ENDS)
    while (at := text.find("{", at)) >= 0:
        closing = open_kinds.get(text[at : at + 2])
        end = text.find(closing, at + 2) if closing else -1
        if closing and end < 0:
            del open_kinds[text[at : at + 2]]  # none of this kind ends any more
        yield from [(at, end + 2)] * (end >= 0)
        at = end + 2 if end >= 0 else at + 1


def _reaches(templates: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Expressions of chat templates that reach Python's internals, each with its place."""
    for name, text in templates:
        for begin, end in _blocks(text):
            if match := INTERNALS.search(text[begin:end]):
                line = text.count("\n", 0, begin + match.start()) + 1
                yield f"{name}, line {line}: {shown(match[0], 80)}"
                break
