"""Words of a command line that name something to examine, without the option for it."""

from __future__ import annotations

from pathlib import Path

from doctor._util.errors import UserError
from doctor.collect.own_names import functions_of
from doctor.job.job import Job


def check_arguments(job: Job) -> None:
    """Raise UserError for words that only the code of --model takes, where there is no model."""
    if not job.arguments or job.model:
        return
    words = " ".join(job.arguments)
    options = _options(Path(job.arguments[0]))
    if not options:
        raise UserError(f"{words}: arguments require --model FILE.py:factory, whose code gets them")
    raise UserError(f"{words}: name what is to be examined by an option: {' or '.join(options)}")


def _options(path: Path) -> list[str]:
    """The options that take what is there."""
    try:
        if path.is_dir():
            return [f"--checkpoint {path}", f"--output-dir {path}"]
        if not path.is_file():
            return []
    except OSError:
        return []
    if path.suffix not in (".py", ".ipynb"):
        return [f"--checkpoint {path}"]
    names = functions_of(str(path)) or []
    factories = [f"--model {path}:{name}" for name in names if name.startswith("make")]
    return [f"--script {path}", *factories[:1]]
