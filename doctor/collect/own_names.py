"""What --model and --hf name: a file with its factory, a directory of a model."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import msgspec

from doctor._util.errors import UserError
from doctor._util.units import visible


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
        raise UserError(f"--hf {directory}: no config.json in it; {_instead(Path(directory))}")
    return directory


def _instead(directory: Path) -> str:
    """What a directory without config.json holds, and what to name."""
    if (directory / ADAPTER).is_file():
        base = _base_of(directory / ADAPTER)
        return f"it is a PEFT adapter{base}: name the directory of its base model with --hf --lora"
    if any(directory.glob("*.gguf")):
        return "it holds GGUF weights, which do not train: name the directory they came from"
    if any(directory.glob("*/config.json")):
        inner = next(directory.glob("*/config.json")).parent.name
        return f"its directory {inner} has one"
    return "a transformers model has one"


ADAPTER = "adapter_config.json"
LARGEST_CONFIG = 1 << 20


def _base_of(path: Path) -> str:
    """The model that an adapter belongs to, as a clause."""
    try:
        with path.open("rb") as file:
            name = msgspec.json.decode(file.read(LARGEST_CONFIG))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return f" of {visible(name)[:100]}" if isinstance(name, str) and name else ""
