"""x"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import preloaded
import pytest
from attention_trials import Interpret

from doctor.collect.child import PROBES
from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild


@pytest.fixture
def interpret(tmp_path: Path) -> Interpret:
    """Makes a Python that runs `prelude` in the same process before the probe."""

    def make(prelude: str, modules: tuple[str, ...] = preloaded.TORCH) -> str:
        head = f"import sys\nsys.path.insert(0, {str(PROBES)!r})\nsys.argv = sys.argv[1:]\n"
        tail = "\nimport runpy\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
        (tmp_path / "prelude.py").write_text(head + textwrap.dedent(prelude) + tail, "utf-8")
        program = tmp_path / "python"
        python = preloaded.python(modules)
        program.write_text(f'#!/bin/sh\nexec {python} {tmp_path}/prelude.py "$@"\n')
        program.chmod(0o755)
        return str(program)

    return make


@pytest.fixture
def children() -> Iterator[Children]:
    made = Children()
    yield made
    made.interrupt()


@pytest.fixture(scope="session")
def warm() -> Iterator[TorchChild]:
    """One process for the trials of the installed torch, unchanged."""
    child = TorchChild(Children(), preloaded.python())
    yield child
    child.end()
