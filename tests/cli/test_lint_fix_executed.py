"""Safe fixes are executed: the script before and after, on values of the types that occur."""

from __future__ import annotations

import io
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from doctor.checks.script.table import FIXES
from doctor.cli.lint.fix import fix_files
from doctor.cli.lint.run import LintOptions, run_lint

pytestmark = pytest.mark.slow

MODEL = """import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [torch.randn(2, 4) for _ in range(3)]
"""
VERSION = "import types\npackage = types.SimpleNamespace(__version__={!r})\n"

SAME = {
    "SCR101": MODEL
    + """scaler = torch.amp.GradScaler("cpu")
for x in loader:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e6)
    scaler.step(optimizer)
    scaler.update()
result = model.weight.detach().tolist()
""",
    "SCR115": MODEL
    + """bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
with torch.autocast("cpu", dtype=torch.bfloat16 if bf16 else torch.float32):
    loss = model(loader[0]).sum()
loss.backward()
result = bf16
""",
    "SCR141": MODEL
    + """loss = -torch.log(torch.softmax(model(loader[0]), dim=-1)).mean()
loss.backward()
result = round(loss.item(), 5)
""",
    "SCR142": MODEL
    + """loss = -torch.log(torch.sigmoid(model(loader[0]))).mean()
loss.backward()
result = round(loss.item(), 5)
""",
    "SCR161": MODEL
    + """from torch.cuda.amp import GradScaler
scaler = GradScaler(enabled=False)
for x in loader:
    optimizer.zero_grad()
    scaler.scale(model(x).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
result = model.weight.detach().tolist()
""",
    "SCR162": VERSION.format("0.9.0") + 'result = package.__version__ >= "0.10.0"\n',
}
"""Scripts whose result is the same after the fix, or, for SCR162, right."""
RIGHT = {"SCR162": False}

VERSIONS = [
    ("import torch\nresult = float(torch.__version__[:3]) >= 1.4\n", True),
    (VERSION.format("2.10.1") + "result = float(package.__version__[:4]) >= 2.9\n", True),
    (VERSION.format("2.10") + 'result = package.__version__[:4] >= "2.9"\n', True),
    (VERSION.format("0.9") + 'version = package.__version__\nresult = version >= "0.10"', False),
    (
        VERSION.format("2.0") + 'version = str(package.__version__)\nresult = version >= "10.0"',
        False,
    ),
]

NUMBERS = [
    "import torch\nversion = float(torch.__version__[:3])\nresult = version >= 2.4\n",
    "import torch\ntorch_version = float(torch.__version__.split('+')[0][:3])\n"
    "if torch_version >= 1.4:\n    result = 1\n",
]

FALLBACKS = [
    "try:\n    from torch.cuda.amp import GradScaler\nexcept ImportError:\n"
    "    class GradScaler:\n        pass\nresult = GradScaler.__name__\n",
    "import torch\ntry:\n    new = float(torch.__version__[:3]) >= 1.4\nexcept ValueError:\n"
    "    new = False\nresult = new\n",
]


def execute(text: str) -> Any:
    scope: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, "train.py", "exec"), scope)
    return scope["result"]


def fixed(path: Path, text: str) -> str:
    path.write_text(text)
    fix_files(run_lint(LintOptions(paths=(str(path),))), unsafe=False, backup=False)
    return path.read_text()


@pytest.mark.parametrize("code", sorted(SAME))
def test_a_safe_fix_keeps_what_the_script_does(tmp_path: Path, code: str) -> None:
    after = fixed(tmp_path / "train.py", SAME[code])
    assert after != SAME[code]
    before = execute(SAME[code])
    assert execute(after) == RIGHT.get(code, before)


def test_every_safe_fix_is_executed() -> None:
    of_transformers = {"SCR121"}  # an argument that transformers documents
    assert {code for code, fix in FIXES.items() if fix.safe} <= SAME.keys() | of_transformers


@pytest.mark.parametrize(("text", "expected"), VERSIONS)
def test_versions_compare_rightly_after_the_fix(tmp_path: Path, text: str, expected: bool) -> None:
    assert execute(fixed(tmp_path / "train.py", text)) is expected


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_is_not_parsed_as_a_version(tmp_path: Path, text: str) -> None:
    after = fixed(tmp_path / "train.py", text)
    assert after == text
    execute(after)


@pytest.mark.parametrize("text", FALLBACKS)
def test_nothing_changes_within_a_try_that_has_an_except(tmp_path: Path, text: str) -> None:
    assert fixed(tmp_path / "train.py", text) == text
