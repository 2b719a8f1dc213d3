"""`doctor scan` as a real process: what it prints, where, and how it exits."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command
import preloaded
import pytest
from checkpoints import checkpoint
from shims import wait_until
from web_server import Served, serving

from doctor._util.records import Ended, Unknown
from doctor.checkpoint.analysis.totals import MOST_DTYPES, count, shares
from doctor.checkpoint.collected import NOTE_INTERVAL, ProgressThrottle
from doctor.checkpoint.records import Checkpoint, History, Optimizer
from doctor.checkpoint.tensors import Tensor
from doctor.cli.scan import check_exists, facts_of, without_a_device
from doctor.collect.child_messages import Answer
from doctor.collect.children import read_checkpoint
from doctor.report.formats import json as report_json
from doctor.report.formats.plain import render
from doctor.report.progress import ProgressBar, amount
from doctor.report.report import Report

pytestmark = pytest.mark.slow

DOCTOR = [sys.executable, "-m", "doctor"]


def doctor(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "100"} | options.pop("env", {})
    return command.doctor(*arguments, env=env, **options)


def scanned(*arguments: object) -> dict[str, Any]:
    done = doctor("scan", *arguments, "--format", "json")
    assert done.stderr == ""
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["exit_code"] == done.returncode
    return report


@pytest.mark.parametrize(
    ("name", "command"), [("train.py", "lint"), ("train.log", "triage"), ("chats.jsonl", "data")]
)
def test_a_file_of_another_command_is_a_usage_error(
    tmp_path: Path, name: str, command: str
) -> None:
    path = tmp_path / name
    path.write_text("import torch\n")
    done = doctor("scan", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"doctor: {path} is no checkpoint; doctor {command} {path} reads it\n"


def test_weights_are_read_whatever_their_name_is(models: Path, tmp_path: Path) -> None:
    weights = tmp_path / "weights.out"
    weights.write_bytes((models / "after" / "model.safetensors").read_bytes())
    assert scanned(weights)["checkpoint"]


def save(folder: Path, **tensors: Any) -> Path:
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, str(folder / "model.safetensors"))
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """before/ and after/: the same small model, one norm and one projection trained."""
    import torch

    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("models")
    weights = {
        "model.embed_tokens.weight": torch.randn(64, 32),
        "model.layers.0.self_attn.q_proj.weight": torch.randn(32, 32),
        "model.layers.0.mlp.up_proj.weight": torch.randn(64, 32),
        "model.layers.0.input_layernorm.weight": torch.rand(32),
        "model.layers.0.post_attention_layernorm.weight": torch.rand(32),
        "model.norm.weight": torch.rand(32),
        "lm_head.weight": torch.randn(64, 32),
    }
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in weights.items()}
    save(root / "before", **weights)
    for name in ("model.layers.0.self_attn.q_proj.weight", "model.norm.weight"):
        weights[name] = weights[name] + 1
    save(root / "after", **weights)
    for folder in ("before", "after"):
        (root / folder / "config.json").write_text(
            '{"model_type": "llama", "torch_dtype": "bfloat16"}'
        )
    return root


@pytest.fixture
def web(models: Path) -> Iterator[Served]:
    with serving(models) as served:
        yield served


def test_what_people_read(models: Path) -> None:
    for format in ("plain", "console"):
        done = doctor("scan", models / "after", "--format", format)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        for words in (
            "one safetensors file · 1 file · 15 kB · 7 tensors · 7,264 parameters · model type l",
            "dtype  part       tensors  parameters  bytes",
            "BF16   embedding        1       2,048   4 kB",
            "       attention        1       1,024   2 kB",
            "       norm             3          96  192 B",
            "pass CKP001",
            "skip CKP002, CKP006-009, CKP011-022",
            "pass CKP004",
            "READY: all checkpoint checks passed",
        ):
            assert words in done.stdout, done.stdout
        assert "embed_tokens" not in done.stdout


def test_json_holds_what_it_promises(models: Path) -> None:
    report = scanned(models / "after")
    assert set(report) >= {
        "schema_version",
        "doctor",
        "path",
        "verdict",
        "exit_code",
        "checkpoint",
        "counts",
        "findings",
        "seconds",
        "started",
        "command",
    }
    found = report["checkpoint"]
    assert (found["tensors"], found["parameters"], found["layout"]) == (
        7,
        7264,
        "one safetensors file",
    )
    assert found["shares"][0] == {
        "dtype": "BF16",
        "kind": "embedding",
        "tensors": 1,
        "parameters": 2048,
        "bytes": 4096,
    }
    assert sum(share["bytes"] for share in found["shares"]) == sum(found["dtypes"].values())
    assert (found["values"]["requested"], found["values"]["tensors"]) == (False, 7)
    assert found["moves"] is None
    assert {finding["family"] for finding in report["findings"]} == {"CKP"}
    assert "type" not in found


def test_all_lists_every_tensor(models: Path) -> None:
    report = scanned(models / "after", "--tensors")
    row = next(row for row in report["tensors"] if row["name"] == "lm_head.weight")
    assert row == {
        "name": "lm_head.weight",
        "dtype": "BF16",
        "shape": [64, 32],
        "file": "model.safetensors",
        "bytes": 4096,
    }
    assert len(report["tensors"]) == 7
    for format in ("plain", "console"):
        text = doctor("scan", models / "after", "--tensors", "--format", format).stdout
        (line,) = [line for line in text.splitlines() if "lm_head.weight" in line]
        assert line.split() == ["lm_head.weight", "BF16", "64×32", "4,096", "model.safetensors"]


def test_ten_thousand_tensors_are_told(tmp_path: Path) -> None:
    import torch

    weights = {f"layers.{number}.w1.weight": torch.zeros(1, 1) for number in range(10_000)}
    report = scanned(save(tmp_path / "many", **weights), "--tensors")
    assert len({row["name"] for row in report["tensors"]}) == 10_000


def test_exit_codes(models: Path, tmp_path: Path) -> None:
    whole = (models / "after" / "model.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[:-100])
    cut = doctor("scan", tmp_path / "cut.safetensors", "--format", "plain")
    assert cut.returncode == 1
    assert "FIX: CKP001" in cut.stdout
    (tmp_path / "empty").mkdir()
    empty = doctor("scan", tmp_path / "empty", "--format", "plain")
    assert empty.returncode == 3
    assert "UNKNOWN: CKP001" in empty.stdout
    report = scanned(tmp_path / "empty")
    assert report["checkpoint"] is None
    assert "no weights" in report["reason"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("scan",), "PATH"),
        (("scan", "/nonexistent/x"), "/nonexistent/x does not exist"),
        (("scan", "README.md", "--baseline", "/nonexistent/y"), "--baseline /nonexistent/y"),
        (("scan", "README.md", "--format", "xml"), "xml"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_2(arguments: tuple[str, ...], said: str) -> None:
    done = doctor(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_an_address_exists_until_it_was_asked() -> None:
    check_exists("https://host/model", "PATH")


def test_names_of_strangers_are_neither_markup_nor_terminal_codes(tmp_path: Path) -> None:
    import torch

    name = "model.\x1b[2J[bold]x[/x]\r\n\u202e.weight"
    folder = save(tmp_path / "[red]a\x1b[2J", **{name: torch.ones(4, 4)})
    (folder / "config.json").write_text('{"model_type": "\\u001b[2J\\ud800"}')
    for format in ("console", "plain"):
        done = doctor("scan", folder, "--tensors", "--format", format)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not {"\x1b", "\r", "\u202e"} & set(done.stdout)
        assert "model.\\x1b[2J[bold]x[/x]\\r\\n\\u202e.weight" in done.stdout
    assert [row["name"] for row in scanned(folder, "--tensors")["tensors"]] == [name]


def test_an_ascii_stream_gets_ascii(models: Path) -> None:
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    for format in ("console", "plain", "json"):
        done = doctor("scan", models / "after", "--tensors", "--format", format, env=env)
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii()


def test_a_pipe_in_place_of_the_weights_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    done = doctor("scan", tmp_path, "--format", "plain")
    assert done.returncode == 1
    assert "is a named pipe, not a file" in done.stdout


def test_deep_reads_the_values_and_baseline_says_what_moved(models: Path) -> None:
    report = scanned(models / "after", "--deep", "--baseline", models / "before")
    assert report["checkpoint"]["values"]["bytes"] == 7264 * 2
    moves = report["checkpoint"]["moves"]
    assert (moves["moved"], moves["unmoved"]) == (2, 5)
    text = doctor("scan", models / "after", "--baseline", models / "before").stdout
    assert "changed since the baseline" in text
    assert "  norm        1 of 3" in text


def test_a_baseline_without_weights_is_unknown(models: Path, tmp_path: Path) -> None:
    moves = scanned(models / "after", "--baseline", tmp_path)["checkpoint"]["moves"]
    assert "no weights" in moves["reason"]


def test_an_address_is_scanned_and_its_secrets_are_kept(web: Served) -> None:
    host = web.address.removeprefix("http://")
    for format in ("plain", "json"):
        done = doctor(
            "scan", f"http://me:secret@{host}/after?token=secret", "--format", format, "--tensors"
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{web.address}/after" in done.stdout
        assert "secret" not in done.stdout + done.stderr
    assert web.sent < 40_000


def test_run_takes_the_same_addresses(web: Served, tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    host = web.address.removeprefix("http://")
    done = doctor(
        "run",
        "--device",
        "cpu",
        "--no-smoke",
        "--only",
        "CKP001,MEM002",
        "--format",
        "json",
        "--python",
        preloaded.python(),
        "--checkpoint",
        f"http://me:secret@{host}/after?token=secret",
        "--save-facts",
        facts,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["job"]["checkpoint"] == f"{web.address}/after"
    assert "required by the checkpoint" in str(report["findings"])
    assert "secret" not in done.stdout + done.stderr + facts.read_text()
    assert doctor("run", "--facts", facts, "--only", "CKP001").returncode == 0


@pytest.fixture
def hanging(models: Path) -> Iterator[Served]:
    """A server that never sends the content of a file."""
    with serving(models, "silent") as served:
        yield served


def probes_of(parent: int) -> list[int]:
    """Children of a process."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
def test_an_interrupt_exits_130_and_leaves_no_child(hanging: Served) -> None:
    process = subprocess.Popen(
        [*DOCTOR, "scan", f"{hanging.address}/after/model.safetensors"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: hanging.paths)
        probes = probes_of(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 130
    assert (out, err) == ("", "")
    assert probes
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in probes))


def on_a_terminal(address: str, delay: float, until: str) -> str:
    """The output of a scan on stderr, a terminal, until it contains a text or the scan ends.

    The progress bar appears after `delay` seconds.
    """
    code = (
        "import doctor.cli.main, doctor.report.progress as progress\n"
        f"progress.DELAY = {delay}\n"
        "doctor.cli.main.main()"
    )
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code, "scan", address],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    output = b""
    try:
        with contextlib.suppress(OSError):  # raised when the other side is closed
            while until.encode() not in output:
                assert select.select([ours], [], [], 100)[0], output
                output += os.read(ours, 1 << 16)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):
            while chunk := os.read(ours, 1 << 16):
                output += chunk
        process.wait(100)
    finally:
        process.kill()
        os.close(ours)
    return output.decode()


def test_progress_is_shown_on_a_terminal_after_a_delay(hanging: Served, models: Path) -> None:
    output = on_a_terminal(f"{hanging.address}/after/model.safetensors", 0.1, until="read ")
    assert "read " in output
    assert "\x1b[?25h" in output or "\x1b[?25l" not in output  # the cursor is visible again
    assert on_a_terminal(str(models / "after"), 600, until="never") == ""


def test_notes_come_at_a_terminals_pace() -> None:
    notes: list[dict[str, Any]] = []
    pace = ProgressThrottle(notes.append)
    for number in range(10_001):
        pace("read", number, 10_000, "bytes")
    assert notes[-1] == {"doing": "read", "done": 10_000, "total": 10_000, "unit": "bytes"}
    assert len(notes) < 3 + 10 / NOTE_INTERVAL


def test_shares_add_up_and_strangers_dtypes_are_bounded() -> None:
    tensors = [Tensor("a.norm.weight", "F32", (4,), 4, "f", 0, 16)]
    tensors += [Tensor(f"x{n}", f"D{n}\x1b", (2,), 2, "f", 16, 18) for n in range(500)]
    found = shares(count(tensors))
    assert found[0].kind in ("other", "norm")
    assert sum(share.tensors for share in found) == 501
    assert len(found) <= MOST_DTYPES + 1
    assert not any("\x1b" in share.dtype for share in found)
    assert shares(count(())) == ()


def test_what_is_told_of_an_optimizer_a_pickle_and_a_run() -> None:
    found = checkpoint(
        path="/run",
        layout="HF Trainer checkpoint",
        history=History(steps=500, lr_sum=0.09, lr_squares=1e-4, covered=400),
        optimizer=Optimizer(
            file="optimizer.pt",
            kind="Adam",
            entries=20,
            parameters=21,
            moments={"F32": 18, "BF16": 2},
            masters={"F32": 20},
            step_min=499.0,
            step_max=500.0,
            lr=(3e-4, 1e-3),
        ),
        imports=("torch._utils._rebuild_tensor_v2", "os.system\x1b"),
        refused=("os.system\x1b",),
    )
    text = render(made(found))
    for words in (
        "  run         step 500 · sum of learning rates 0.09 (400 steps logged)",
        "  optimizer   Adam · 20 of 21 parameters have state · moments F32 × 18, BF16 × 2 · master "
        "weights F32 · step 499-500 · learning rate 0.0003, 0.001",
        "  imports     os.system\\x1b (refused by weights_only), torch._utils._rebuild_tensor_v2",
    ):
        assert words in text
    assert json.loads(report_json.render(made(found)))["checkpoint"]["optimizer"]["kind"] == "Adam"


def test_what_could_not_be_read_of_an_optimizer_is_said() -> None:
    found = checkpoint(
        path="/run",
        layout="x",
        optimizer=Unknown(reason="optimizer.pt is cut short"),
    )
    assert "optimizer   unknown: optimizer.pt is cut short" in render(made(found))


def made(found: Checkpoint) -> Report:
    return Report(facts_of("/run", found, 0.1), ())


def test_only_checks_of_a_device_are_left_out() -> None:
    from doctor import catalog

    left_out = [c.code for c in catalog.CHECKS if c.family == "CKP" and without_a_device(c) != c]
    assert left_out == ["CKP002"]


def test_how_the_probe_died_tells_no_secret() -> None:
    detail = "ValueError: https://me:secret@host/x?token=secret"
    found = read_checkpoint(Answer(Ended(how="error", detail=detail)))
    assert found == Unknown(reason="ValueError: https://host/x")


def test_a_bar_without_a_terminal_is_silent_and_takes_any_note() -> None:
    with ProgressBar() as bar:
        bar.show_stage("read \x1b[2J")
        for note in ({}, {"done": "x"}, {"done": 1, "total": "y"}, {"done": 1, "total": None}):
            bar.update(note)
    assert amount({"completed": 2 * 10**9, "total": 4 * 10**9}, "bytes") == "2.0 GB of 4.0 GB"
    assert amount({"completed": 1, "total": None}, "files") == "1 file"
    assert amount({"completed": 3, "total": 795}, "tensors") == "3 of 795 tensors"
    assert amount({"completed": 0, "total": None}, "files") == ""
