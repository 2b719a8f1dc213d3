"""x"""

from __future__ import annotations

import textwrap
from pathlib import Path

import preloaded
import pytest
from attention_trials import Interpret
from probe_code import REGISTERED, RUN


@pytest.fixture
def interpret(tmp_path: Path) -> Interpret:
    """Makes a Python that runs `prelude` in the same process before the probe."""

    def make(prelude: str, modules: tuple[str, ...] = preloaded.TORCH) -> str:
        head = "import sys\nsys.argv = sys.argv[1:]\n" + REGISTERED
        (tmp_path / "prelude.py").write_text(head + textwrap.dedent(prelude) + RUN, "utf-8")
        program = tmp_path / "python"
        python = preloaded.python(modules)
        program.write_text(f'#!/bin/sh\nexec {python} {tmp_path}/prelude.py "$@"\n')
        program.chmod(0o755)
        return str(program)

    return make
