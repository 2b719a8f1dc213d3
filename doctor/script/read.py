"""Any file of a training to its `Script`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from doctor.facts.script import Launch, Script, Setting, Span, Unreadable
from doctor.script.discover import CODE, DATA, SHELL
from doctor.script.python import Searchable, read_notebook, read_python


def read_script(
    path: str,
    data: bytes,
    *,
    launches: tuple[Launch, ...] = (),
    requirements: Mapping[str, str] | None = None,
    settings: tuple[Setting, ...] = (),
    relevant: Searchable | None = None,
) -> Script | None:
    """The facts of a file, None for one that no rule reads; `relevant` as `read_python` has it.

    `settings` are those of the files beside it that it loads.
    """
    if path.endswith(".ipynb"):
        return read_notebook(path, data)
    if path.endswith(SHELL):
        from doctor.script.shell import read_shell

        return read_shell(path, data)
    if path.endswith(DATA):
        from doctor.script.configuration import read_configuration

        return read_configuration(path, data)
    if path.endswith(CODE) or (data.startswith(b"#!") and b"python" in data[:80]):
        script = read_python(
            path, data, launches=launches, requirements=requirements, relevant=relevant
        )
        return msgspec.structs.replace(script, settings=settings) if settings else script
    return None


def unreadable(path: str, reason: str) -> Script:
    """A file that could not be opened."""
    return Script(path=path, kind="python", unreadable=(Unreadable(reason, Span(1, 1)),))
