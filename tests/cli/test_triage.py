"""The commands `doctor triage` and `doctor explain TEXT`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import doctor

LOGS = Path(__file__).parents[1] / "log" / "real"
ERROR = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"
TOKEN = "hf_" + "a" * 30


def triage(*arguments: object, **options: object) -> tuple[int, str, str]:
    ran = doctor("triage", "--no-config", *arguments, **options)
    return ran.returncode, ran.stdout, ran.stderr


def test_the_first_cause_is_the_first_finding_with_its_place_and_the_exit_code_1() -> None:
    code, out, _ = triage(LOGS / "one_rank_raises.log", "--format", "json")
    first = json.loads(out)["findings"][0]
    assert code == 1
    assert (first["slug"], first["status"], first["family"]) == (
        "uncaught-exception",
        "fail",
        "LOG",
    )
    assert first["places"][0]["line"] == 11
    assert first["places"][0]["rank"] == 1


def test_nothing_found_is_unknown_and_exit_code_3() -> None:
    code, out, _ = triage(LOGS / "healthy.log")
    assert code == 3
    assert "UNKNOWN" in out
    assert triage(LOGS / "healthy.log", "--fail-on", "never")[0] == 0


def test_the_text_report_shows_the_line_the_reason_the_fix_and_the_curves() -> None:
    code, out, _ = triage(LOGS / "trainer_nan.log", "--format", "plain")
    assert code == 1
    for part in ("LOG090", "trainer_nan.log", "why:", "fix:", "doctor run --only", "grad_norm"):
        assert part in out


def test_a_script_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    code, out, err = triage("train.py", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert err == "doctor: train.py is no log; doctor lint train.py reads it\n"


@pytest.mark.parametrize(
    ("line", "row"),
    [("state, _ = env.reset()", "simulator-not-usable"), ("x, y = batch", "unpacked-rows")],
)
def test_the_programs_line_decides_between_rows(tmp_path: Path, line: str, row: str) -> None:
    (tmp_path / "a.log").write_text(
        f'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    {line}\n'
        "ValueError: too many values to unpack (expected 2)\n"
    )
    assert f"({row}) ValueError" in triage(tmp_path / "a.log")[1]


def test_one_value_is_no_curve(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text("step 1 loss 2.0\n")
    (tmp_path / "two.log").write_text("step 1 loss 2.0\nstep 2 loss 1.5\n")
    _, one, _ = triage(tmp_path / "one.log")
    _, two, _ = triage(tmp_path / "two.log")
    assert "curves" not in one
    assert "2 -> 1.5, steps 1 to 2" in two


def test_a_directory_with_a_log_per_rank_is_one_log(tmp_path: Path) -> None:
    for rank in range(3):
        text = ERROR if rank == 2 else "Connection closed by peer [127.0.0.1]:1"
        (tmp_path / f"rank_{rank}.log").write_text(f"start\n{text}\n")
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    code, out, _ = triage(tmp_path, "--format", "json")
    first = json.loads(out)["findings"][0]
    assert code == 1
    assert (first["slug"], first["places"][0]["rank"]) == ("element0-no-grad", 2)


def test_stdin_is_read() -> None:
    code, out, _ = triage("-", "--format", "json", input=f"{ERROR}\n")
    assert code == 1
    first = json.loads(out)["findings"][0]
    assert (first["slug"], first["places"][0]["path"]) == ("element0-no-grad", "stdin")


def test_an_empty_log_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("")
    assert "the log is empty" in triage(tmp_path / "train.log")[1]
    assert "the log is empty" in triage("-", input="")[1]
    (tmp_path / "train.log").write_text("\n")
    assert "the log is empty" not in triage(tmp_path / "train.log")[1]


@pytest.mark.parametrize(
    "format", ["plain", "json", "github", "markdown", "junit", "html", "sarif"]
)
def test_no_format_lets_a_log_write_to_the_terminal_or_leak_a_token(
    tmp_path: Path, format: str
) -> None:
    path = tmp_path / "train.log"
    evil = f"::error::owned [bold]x[/bold] <script>alert(1)</script> {TOKEN} API_KEY=secret123"
    path.write_bytes(f"\x1b]0;title\x07\x1b[2J{evil} {ERROR}\r::set-output x\n".encode())
    code, out, _ = triage(path, "--format", format)
    assert code == 1
    assert TOKEN not in out
    assert "secret123" not in out
    assert "\x1b" not in out
    assert format not in ("html", "markdown") or "<script>alert" not in out
    assert not [line for line in out.splitlines() if line.startswith(("::error::owned", "::set-"))]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["/does/not/exist"], "No such file"),
        (["{empty}"], "no log files"),
        (["{log}", "--only", "GPU001"], "leave no check"),
        (["{log}", "--facts", "/does/not/exist"], "--facts"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, arguments: list[str], word: str
) -> None:
    named = {"empty": str(tmp_path), "log": str(LOGS / "no_grad.log")}
    code, out, error = triage(*(each.format(**named) for each in arguments))
    assert code == 2
    assert not out
    assert word in error
    assert len(error.splitlines()) == 1


def test_saved_facts_hold_the_log(tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    triage(LOGS / "no_grad.log", "--save-facts", facts)
    saved = json.loads(facts.read_text())
    assert saved["log"]["events"][0]["name"] == "element0-no-grad"


def explain(*arguments: object, **options: object) -> tuple[int, str, str]:
    ran = doctor("explain", *arguments, **options)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ERROR, ["LOG041", "Fix:", "enable_input_require_grads", "Sources:"]),
        ("{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05}", ["LOG090", "NaN"]),
        ("{'loss': 1.5, 'grad_norm': 0.3}", ["loss 1.5"]),
        ("Setting `pad_token_id` to `eos_token_id`:2", ["harmless"]),
        ("tf32", ["NUM001"]),
        ("scaler", ["GradScaler"]),
        ("warmup", ["P12"]),
        ("NUM002", ["NUM002 tf32-setting"]),
    ],
)
def test_a_text_is_explained(text: str, words: list[str]) -> None:
    code, out, _ = explain(text)
    assert code == 0
    for word in words:
        assert word in out


def test_a_text_that_no_row_has_names_the_nearest() -> None:
    code, out, error = explain("mat1 and mat2 should have the same dtype, or so")
    assert (code, out) == (2, "")
    assert "nearest: LOG045 dtype-mismatch" in error


def test_stdin_is_explained_and_json_lists_the_checks() -> None:
    code, out, _ = explain("-", input=f"Traceback\n{ERROR}\n")
    assert code == 0
    assert "LOG041" in out
    _, out, _ = explain(ERROR, "--format", "json")
    assert [check["code"] for check in json.loads(out) if check["code"]] == ["LOG041"]


@pytest.mark.parametrize(
    ("text", "word"), [("NUM02", "nearest: NUM002"), ("qwertyuiop zxcvb", "nothing is known")]
)
def test_what_nothing_is_known_about_is_a_mistake(text: str, word: str) -> None:
    code, out, error = explain(text)
    assert (code, out) == (2, "")
    assert word in error
