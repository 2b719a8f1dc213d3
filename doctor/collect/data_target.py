"""What names data: a factory in a file, a file of rows, or a directory."""

from __future__ import annotations

import os

from doctor._util.errors import UserError
from doctor.collect.own_names import file_of, functions_of

ROWS = (".jsonl", ".json", ".parquet", ".csv", ".tsv", ".txt", ".ndjson")


def what_of(target: str, named: str = "TARGET") -> dict[str, object]:
    """A factory, or a file or directory of rows. Raises UserError."""
    if os.path.exists(target):  # noqa: PTH110 - never raises
        if os.path.isdir(target) or target.endswith(ROWS):  # noqa: PTH112
            return {"kind": "file", "path": os.path.abspath(target)}  # noqa: PTH100
        hint = "name a function, as in train.py:make" if target.endswith(".py") else (
            "files of rows end in " + ", ".join(ROWS))  # fmt: skip
        raise UserError(f"{named} {target}: {hint}{_functions(target)}")
    file, colon, name = target.rpartition(":")
    path = file_of(file)
    if not colon or not name.isidentifier():
        raise UserError(f"{named} {target}: no such file or directory")
    if not path.endswith(".py") or not os.path.isfile(path):  # noqa: PTH113
        raise UserError(f"{named} {target}: no such Python file: {path}")
    return {"kind": "factory", "file": path, "name": name, "arguments": []}


def two_files(train: str, evaluation: str) -> dict[str, object]:
    """Two files of rows. Raises UserError."""
    paths = []
    for named, target in (("TARGET", train), ("EVAL", evaluation)):
        what = what_of(target, named)
        if what["kind"] != "file" or os.path.isdir(target):  # noqa: PTH112
            raise UserError(
                f"{named} {target}: no file of rows; name two files, or one directory or function "
                "that has both splits"
            )
        paths.append(what["path"])
    if os.path.samefile(train, evaluation):  # noqa: PTH121
        raise UserError(f"EVAL {evaluation}: the same file as TARGET; name that of the evaluation")
    return {"kind": "file", "path": paths[0], "eval": paths[1]}


def _functions(path: str) -> str:
    names = functions_of(path) if path.endswith(".py") else None
    return f"; its functions are {', '.join(names[:8])}" if names else ""
