"""`doctor lint --fix`: what it writes, what it refuses, and that it writes whole or not at all."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from command import doctor, program
from paths import ROOT

from doctor.checks.script.names import select
from doctor.checks.script.table import FIXES
from doctor.cli.lint.fix import Plan, _write
from doctor.cli.lint.run import Lint, LintOptions, findings_of, run_lint
from doctor.judge.check import Finding, Status
from doctor.script.fixes.differences import only_touched
from doctor.script.fixes.edits import Edit, Module, apply

LOOP = """import torch
import torch.nn.functional as F
scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.SGD(model.parameters())
for x in loader:
    optimizer.zero_grad()
    {}
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def fix(here: Path, text: str | bytes, *arguments: str) -> str:
    """The file after `--fix`; a second one must change nothing."""
    path = here / "train.py"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    doctor("lint", "train.py", "--fix", *arguments, cwd=here)
    after = path.read_bytes()
    doctor("lint", "train.py", "--fix", *arguments, cwd=here)
    assert path.read_bytes() == after
    return after.decode("utf-8", "surrogateescape")


SCALED = LOOP.format(
    """scaler.scale(model(x)).backward()
    if args.clip:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # keep
    scaler.step(optimizer)
    scaler.update()"""
)
PEFT = """import torch
from transformers import AutoModel, Trainer, TrainingArguments
from peft import get_peft_model
model = get_peft_model(AutoModel.from_pretrained("x"), config)
{}
Trainer(model=model, args=args).train()
"""


@pytest.mark.parametrize(
    ("text", "inserted"),
    [
        (SCALED, "        scaler.unscale_(optimizer)\n        torch.nn.utils.clip_grad_norm_"),
        (
            LOOP.format("torch.log(F.softmax(x, dim=1)).mean().backward()"),
            "    F.log_softmax(x, dim=1).mean().backward()",
        ),
        (
            LOOP.format("model(x).softmax(-1).log().mean().backward()"),
            "    model(x).log_softmax(-1).mean().backward()",
        ),
        (
            LOOP.format("torch.log(torch.sigmoid(x)).mean().backward()"),
            "    torch.nn.functional.logsigmoid(x).mean().backward()",
        ),
        (
            PEFT.format("model.gradient_checkpointing_enable()\nargs = None"),
            'enable(gradient_checkpointing_kwargs={"use_reentrant": False})',
        ),
        (
            PEFT.format(
                'args = TrainingArguments(\n    "o",\n    gradient_checkpointing=True,  # why\n)'
            ),
            'gradient_checkpointing=True,\n    gradient_checkpointing_kwargs={"use_reentrant": '
            "False},  # why\n)",
        ),
        (
            "from torch.cuda.amp import autocast, GradScaler\nscaler = GradScaler(init_scale=8)\n"
            "with autocast(True, dtype=d):\n    pass\n",
            'from torch.amp import autocast, GradScaler\nscaler = GradScaler("cuda", init_scale=8)'
            '\nwith autocast("cuda", enabled=True, dtype=d):\n    pass\n',
        ),
        (
            "import torch\n@torch.cuda.amp.custom_fwd\ndef f(x):\n    pass\n",
            '@torch.amp.custom_fwd(device_type="cuda")\ndef f(x):',
        ),
        (
            '"""Doc."""\nfrom __future__ import annotations\nimport peft\n'
            'new = peft.__version__ >= "0.10"\n',
            "from __future__ import annotations\nimport packaging.version\nimport peft\n"
            'new = packaging.version.parse(peft.__version__) >= packaging.version.parse("0.10")\n',
        ),
        (
            LOOP.format("d = torch.bfloat16 if torch.cuda.is_bf16_supported() else None")
            + "loss.backward()\n",
            "torch.cuda.is_bf16_supported(including_emulation=False) else None",
        ),
    ],
)
def test_safe_fixes(here: Path, text: str, inserted: str) -> None:
    assert inserted in fix(here, text)


@pytest.mark.parametrize(
    ("text", "inserted"),
    [
        (
            PEFT.format('args = TrainingArguments("o", bf16=True)'),
            "bf16=torch.cuda.is_bf16_supported(including_emulation=False), "
            "fp16=not torch.cuda.is_bf16_supported(including_emulation=False)",
        ),
        (
            PEFT.format('args = TrainingArguments("o", fp16=True)'),
            '"o", fp16=True, logging_nan_inf_filter=False)',
        ),
    ],
)
def test_unsafe_fixes_need_their_flag(here: Path, text: str, inserted: str) -> None:
    assert inserted not in fix(here, text)
    assert inserted in fix(here, text, "--unsafe-fixes")


@pytest.mark.parametrize(
    "text",
    [
        SCALED.replace("    scaler.step", "    if step:\n        scaler.step"),
        SCALED.replace("scaler.step(optimizer)", "scaler.step(one)\n    scaler.step(two)"),
        "from torch.cuda.amp import autocast\ncontext = autocast\nwith context():\n    pass\n",
        LOOP.format("p = F.softmax(x, -1)\n    torch.log(p).mean().backward()"),
    ],
    ids=["accumulation", "two optimizers", "passed on", "variable"],
)
def test_what_has_no_sure_fix_stays(here: Path, text: str) -> None:
    assert fix(here, text) == text


@pytest.mark.parametrize(
    ("head", "newline", "codec"),
    [
        ("", "\r\n", "utf-8"),
        ("\ufeff", "\n", "utf-8"),
        ("# coding: latin-1\nname = 'é'\n", "\n", "latin-1"),
        ("name = 'é'; x = 'ü'\n", "\r\n", "utf-8"),
    ],
    ids=["CRLF", "BOM", "latin-1", "not ASCII"],
)
def test_bytes_that_are_not_meant_stay(here: Path, head: str, newline: str, codec: str) -> None:
    text = (head + SCALED.replace("    ", "\t")).replace("\n", newline)
    wanted = text.replace(
        "\t\ttorch.nn.utils", f"\t\tscaler.unscale_(optimizer){newline}\t\ttorch.nn.utils"
    )
    after = fix(here, text.encode(codec))
    assert after.encode("utf-8", "surrogateescape") == wanted.encode(codec)


def test_a_diff_changes_nothing(here: Path) -> None:
    path = here / "train.py"
    path.write_text(SCALED)
    result = doctor("lint", "train.py", "--diff", cwd=here)
    assert result.returncode == 1
    assert "+        scaler.unscale_(optimizer)" in result.stdout
    assert "1 would be fixed in 1 file" in result.stderr
    assert path.read_text() == SCALED
    assert not list(here.glob("*.orig*"))


def test_a_copy_is_kept_and_none_is_overwritten(here: Path) -> None:
    (here / "train.py.orig").write_text("mine")
    fix(here, SCALED)
    assert (here / "train.py.orig").read_text() == "mine"
    assert (here / "train.py.orig1").read_text() == SCALED


def test_no_backup_keeps_no_copy(here: Path) -> None:
    assert fix(here, SCALED, "--no-backup") != SCALED
    assert not list(here.glob("*.orig*"))


def test_the_file_and_its_copy_keep_the_mode(here: Path) -> None:
    path = here / "train.py"
    path.write_text(SCALED)
    path.chmod(0o750)
    doctor("lint", "train.py", "--fix", cwd=here)
    assert "unscale_" in path.read_text()
    assert {each.stat().st_mode & 0o777 for each in (path, here / "train.py.orig")} == {0o750}


def test_links_below_a_directory_are_not_followed(here: Path) -> None:
    """Neither read, so that no line of a secret file is printed, nor edited."""
    project, other = here / "project", here / "other"
    project.mkdir()
    other.mkdir()
    (other / "victim.py").write_text(SCALED)
    (project / "link.py").symlink_to("../other/victim.py")
    (project / "folder").symlink_to("../other", target_is_directory=True)
    result = doctor("lint", "--fix", "project", cwd=here)
    assert result.returncode == 3
    assert "project/link.py (a link; name it" in result.stdout
    assert (other / "victim.py").read_text() == SCALED
    assert sorted(path.name for path in other.iterdir()) == ["victim.py"]


def test_a_link_that_is_named_is_followed(here: Path) -> None:
    (here / "real.py").write_text(SCALED)
    (here / "link.py").symlink_to("real.py")
    doctor("lint", "--fix", "link.py", cwd=here)
    assert (here / "link.py").is_symlink()
    assert "unscale_" in (here / "real.py").read_text()
    assert (here / "real.py.orig").read_text() == SCALED


def test_a_link_that_takes_a_files_place_is_not_followed(here: Path) -> None:
    """Between the reading and the writing of a fix."""
    (here / "train.py").write_text(SCALED)
    (here / "victim.py").write_text(SCALED)
    result = run_lint(LintOptions(paths=(str(here),)))
    (here / "train.py").unlink()
    (here / "train.py").symlink_to("victim.py")
    plan = Plan(str(here / "train.py"), SCALED.encode(), b"changed", Counter())
    assert "symbolic link" in _write(plan, follow=False, backup=True)
    assert "SCR001" in {f.check.code for f in _relinted(result) if f.status is Status.WARN}
    assert (here / "victim.py").read_text() == SCALED


def _relinted(result: Lint) -> list[Finding]:
    hits = [hit for path in result.paths for hit in result.linter.file(path).hits]
    return list(findings_of(hits, select(("SCR",), ())))


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_without_permission_is_told(here: Path) -> None:
    (here / "train.py").write_text(SCALED)
    here.chmod(0o555)
    try:
        result = doctor("lint", "train.py", "--fix", cwd=here)
    finally:
        here.chmod(0o755)
    assert "not fixed" in result.stdout
    assert (here / "train.py").read_text() == SCALED


AUTOCAST = LOOP.replace(
    "    {}",
    """    with torch.autocast("cuda"):
        loss = F.mse_loss(model(x), x)

        scaler.scale(
            loss
        ).backward()  # one level
        scaler.step(optimizer)
        {}
    n = 1""",
)


def test_backward_leaves_the_autocast_block(here: Path) -> None:
    after = fix(here, AUTOCAST.format("scaler.update()"), "--unsafe-fixes")
    moved = """
    scaler.scale(
        loss
    ).backward()  # one level
    scaler.step(optimizer)
    scaler.update()
    n = 1
"""
    assert after.endswith(f"F.mse_loss(model(x), x)\n{moved}")


@pytest.mark.parametrize(
    "tail",
    [
        "validate(model)",
        "print(model(x))",
        "if done:\n            scaler.update()",
        'print("""a\n        b""")',
        "scaler.update(); scaler.update()",
    ],
    ids=["a call", "a forward pass", "a condition", "text over lines", "one line"],
)
def test_a_block_that_may_depend_on_autocast_stays(here: Path, tail: str) -> None:
    text = AUTOCAST.format(tail)
    assert fix(here, text, "--unsafe-fixes") == text


KILL = """
import os, signal, sys
left = [int(os.environ["KILL_AT"])]
EVENTS = ("open", "os.link", "os.rename", "os.chmod", "os.remove")

def kill(event, arguments):
    if event in EVENTS and isinstance(arguments[0], str) and (
        os.path.join(os.getcwd(), arguments[0]).startswith(os.environ["HERE"])
    ):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill)
"""


@pytest.mark.slow
def test_killed_at_any_operation_the_file_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    """The process is killed before each operation on a file of the directory in turn."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(KILL)
    wanted, killed, states = fix_alone(tmp_path / "alone"), 0, set()
    while True:
        here = tmp_path / f"run{killed}"
        (here / ".git").mkdir(parents=True)
        (here / "train.py").write_text(SCALED)
        environment = {
            **os.environ,
            "PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "HERE": str(here),
            "KILL_AT": str(killed + 1),
        }
        command = [*program(), "lint", "train.py", "--fix", "--no-config"]
        result = subprocess.run(command, cwd=here, env=environment, check=False)
        text = (here / "train.py").read_text()
        assert text in (SCALED, wanted)
        assert all(copy.read_text() == SCALED for copy in here.glob("*.orig*"))
        states.add(text)
        if result.returncode >= 0:
            break
        assert result.returncode == -signal.SIGKILL
        killed += 1
        assert (
            doctor("lint", ".", "--habits", "--format", "plain", cwd=here).stdout.count("train.py")
            > 0
        )
        assert fix(here, text) == wanted
    assert killed >= 6
    assert states == {SCALED, wanted}


def fix_alone(here: Path) -> str:
    (here / ".git").mkdir(parents=True)
    return fix(here, SCALED)


def test_edits_may_not_overlap() -> None:
    with pytest.raises(ValueError, match="overlap"):
        apply(b"abc", [Edit(0, 2, b"x"), Edit(1, 3, b"y")])


def test_differences_outside_of_an_edit_are_seen() -> None:
    old, new = ast.parse("a = 1\nb = 2\n"), ast.parse("a = 1\nb = 3\n")
    assert not only_touched(old, new, lambda node: getattr(node, "lineno", 0) == 1)
    assert only_touched(old, new, lambda node: getattr(node, "lineno", 0) == 2)


def test_positions_are_bytes_in_the_files_own_encoding() -> None:
    module = Module("# coding: latin-1\né = f('ü', x)\n".encode("latin-1"))
    (call,) = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    assert module.data[module.start(call) : module.end(call)] == b"f('\xfc', x)"


def test_the_documentation_lists_every_fix_and_whether_it_is_safe() -> None:
    text = (ROOT / "docs" / "lint.md").read_text()
    table = [line.split("|")[1:4] for line in text.splitlines() if line.startswith("| SCR")]
    listed = {
        code: "--unsafe-fixes" not in how
        for codes, _, how in table
        for code in codes.replace(",", " ").split()
    }
    assert listed == {code: fix.safe for code, fix in FIXES.items()}
