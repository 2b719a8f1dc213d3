"""What --model and --hf name: a file with its factory, a directory of a model."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from doctor._util.errors import UserError


def factory_of(model: str) -> tuple[str, str]:
    """FILE.py:factory as file and function. Raises UserError for anything else."""
    file, colon, name = model.rpartition(":")
    if not colon or not name.isidentifier():
        raise UserError(
            f"--model {model} is not of the form FILE.py:factory, such as train.py:make"
            f"{_functions(file_of(model))}"
        )
    path = file_of(file)
    if not path.endswith(".py") or not os.path.isfile(path):  # noqa: PTH113 - never raises
        raise UserError(f"--model {model}: no such Python file: {path}")
    return path, name


def _functions(path: str) -> str:
    """The functions of a Python file, as a clause."""
    names = functions_of(path)
    if names is None:
        return ""
    return f"; its functions are {', '.join(names[:8])}" if names else "; it has no function"


def functions_of(path: str) -> list[str] | None:
    """The functions of a Python file, nothing of which is run; None if it cannot be read."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]


def file_of(file: str) -> str:
    """The file of a dotted module in the working directory or its src, "pkg.train"; else `file`."""
    if file.endswith(".py") or not all(part.isidentifier() for part in file.split(".")):
        return file
    stem = file.replace(".", "/")
    paths = [f"{root}{stem}{end}" for root in ("", "src/") for end in (".py", "/__init__.py")]
    return next((path for path in paths if os.path.isfile(path)), file)  # noqa: PTH113


def find_directory(directory: str) -> str:
    """The directory of --hf. Raises UserError if it holds no transformers model."""
    if not os.path.isdir(directory):  # noqa: PTH112 - never raises
        on_hub = directory.count("/") == 1
        reason = "not downloaded; name a local directory" if on_hub else "no such directory"
        raise UserError(f"--hf {directory}: {reason}")
    if not os.path.isfile(os.path.join(directory, "config.json")):  # noqa: PTH113, PTH118
        raise UserError(f"--hf {directory}: no config.json in it; a transformers model has one")
    return directory
