"""A pipeline of diffusers: model_index.json, and a model in each of several subdirectories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, read_json
from doctor.checkpoint.layouts.layout import FileGroup, Layout
from doctor.checkpoint.records import Problem

INDEX = "model_index.json"

LIMIT = 1 << 20
"""Bytes of model_index.json that are read."""

MOST = 50
"""Components that are read."""

MODELS = ("Model", "Transformer2D", "AutoencoderKL")
"""Ends of the classes of models in diffusers."""

FindWeights = Callable[[Directory, list[str], list[str], str], "Layout | None"]


def pipeline(directory: Directory, entries: list[str], find: FindWeights) -> Layout | None:
    """The weights of all components; None where there is no pipeline."""
    if INDEX not in entries:
        return None
    try:
        index = read_json(directory, INDEX, LIMIT)
    except CheckpointError as error:
        return Layout(directory, "diffusers pipeline", problems=(error.problem(INDEX),))
    named = [name for name, value in index.items() if _is_component(value)]
    files: list[str] = []
    problems: list[Problem] = []
    read = []
    for name in named[:MOST]:
        if name not in entries:
            text = f"names {shown(name)}, which is not here"
            problems.append(Problem(kind="missing", file=INDEX, text=text))
            continue
        component = _component(directory, name, find)
        if component is None:
            problems += _weightless(directory, name)
            continue
        read.append(name)
        files += [f"{name}/{file}" for file in component.files]
        problems += [
            replace_file(problem, f"{name}/{problem.file}") for problem in component.problems
        ]
    if not files:
        return None
    kind = f"diffusers pipeline ({', '.join(map(shown, read))})"
    group = FileGroup("components", files=tuple(files))
    return Layout(directory, kind, problems=tuple(problems), groups=(group,))


def _is_component(value: object) -> bool:
    """[library, class], or [null, null] where the pipeline goes without."""
    return isinstance(value, list) and len(value) == 2 and all(isinstance(n, str) for n in value)


def _component(directory: Directory, name: str, find: FindWeights) -> Layout | None:
    """The weights of one; None for those without: a scheduler, a tokenizer."""
    inside = directory.inside(name)
    try:
        entries = [each.rstrip("/") for each in inside.names()]
    except CheckpointError:
        return None
    names = [each for each in entries if not each.startswith(".")]
    layout = find(inside, names, entries, name)
    return replace(layout, groups=()) if layout else None


def _weightless(directory: Directory, name: str) -> list[Problem]:
    """A model of diffusers by its config.json, which schedulers and processors do not have."""
    file = f"{name}/config.json"
    try:
        kind = read_json(directory, file, LIMIT).get("_class_name")
    except CheckpointError:
        return []
    if not isinstance(kind, str) or not kind.endswith(MODELS):
        return []
    text = f"describes {shown(kind, 100)}, and no weights lie beside it"
    return [Problem(kind="missing", file=shown(file), text=text)]


def replace_file(problem: Problem, file: str) -> Problem:
    """The problem, of a file of that name."""
    return Problem(kind=problem.kind, file=file, text=problem.text)
