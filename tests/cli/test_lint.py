"""`doctor lint` as a process: selection, suppression, formats, exit codes, job file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from command import doctor

SCRIPT = """import torch

for x in loader:
    scaler.scale(model(x)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
ONLY = ("--only", "SCR101,SCR002,SCR001")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()  # the job file is searched up to the repository's root
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def run(here: Path, *arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    return doctor("lint", *arguments, cwd=here, **options)


def places(result: subprocess.CompletedProcess[str]) -> list[tuple[str, str, int, int]]:
    return [
        (finding["code"], place["path"], place["line"], place["column"])
        for finding in json.loads(result.stdout)["findings"]
        for place in finding["places"]
    ]


def test_a_finding_has_its_line_a_caret_and_a_fix(here: Path) -> None:
    result = run(here, *ONLY)
    assert result.returncode == 1
    assert result.stdout.splitlines()[:3] == [
        "train.py:5:5 SCR101 [failure] clip-without-unscale: "
        "gradients are clipped before scaler.unscale_(optimizer)",
        "5 |     torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]
    assert result.stdout.splitlines()[-1] == "1 file: 1 failure"


def test_concise_is_one_line_per_place(here: Path) -> None:
    first, last = run(here, *ONLY, "--format", "plain").stdout.splitlines()
    assert first.startswith("train.py:5:5 SCR101 [failure] clip-without-unscale: ")
    assert last == "1 file: 1 failure"


def test_failures_come_first_and_habits_are_a_count(here: Path) -> None:
    (here / "train.py").write_text(f"x = torch.cuda.amp.autocast()\n{SCRIPT}")
    rows = run(here, "--format", "plain").stdout.splitlines()
    kinds = [row.split()[2] for row in rows[:-1]]
    assert kinds == sorted(kinds, key=["[failure]", "[warning]", "[note]"].index)
    assert kinds[0] == "[failure]"
    assert "habits absent (--habits)" in rows[-1]
    assert not any("tf32-not-set" in row for row in rows)
    listed = run(here, "--format", "plain", "--habits").stdout
    assert "SCR171 [note] tf32-not-set" in listed
    assert "habits absent" not in listed


@pytest.mark.parametrize("format", ["json", "sarif", "junit", "github", "markdown", "plain"])
def test_every_format_names_the_place(here: Path, format: str) -> None:
    result = run(here, *ONLY, "--format", format)
    assert result.returncode == 1
    assert "SCR101" in result.stdout
    assert "train.py" in result.stdout


def test_json_has_places_and_sarif_has_fixes(here: Path) -> None:
    assert places(run(here, *ONLY, "--format", "json")) == [("SCR101", "train.py", 5, 5)]
    sarif = json.loads(run(here, *ONLY, "--format", "sarif").stdout)
    (result,) = sarif["runs"][0]["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 5, "startColumn": 5, "endLine": 5, "endColumn": 60}
    (change,) = result["fixes"][0]["artifactChanges"]
    (replacement,) = change["replacements"]
    assert replacement["insertedContent"]["text"] == "    scaler.unscale_(optimizer)\n"
    assert replacement["deletedRegion"]["startLine"] == 5


def test_output_writes_files_beside_stdout(here: Path) -> None:
    result = run(here, *ONLY, "--output", "sarif=out.sarif", "--output", "plain=out.txt")
    assert result.stdout.startswith("train.py:5:5")
    assert json.loads((here / "out.sarif").read_text())["version"] == "2.1.0"
    assert (here / "out.txt").read_text().startswith("train.py:5:5")


def test_an_editor_pipes_a_file(here: Path) -> None:
    result = run(here, "-", "--stdin-filename", "src/x.py", "--format", "json", *ONLY, input=SCRIPT)
    assert places(result) == [("SCR101", "src/x.py", 5, 5)]


@pytest.mark.parametrize(
    ("comment", "code", "reported"),
    [
        ("# doctor: ignore[SCR101] the norm is only logged", 0, []),
        ("# doctor: ignore[clip-without-unscale] only logged", 0, []),
        ("# noqa: SCR101 clipped by hand", 0, []),
        ("# noqa: SCR101", 1, ["SCR101", "SCR002"]),
        ("# noqa", 1, ["SCR101"]),
        ("# noqa: E501", 1, ["SCR101"]),
        ("# doctor: ignore[SCR101]", 1, ["SCR101", "SCR002"]),
        ("# doctor: ignore[] why", 1, ["SCR101", "SCR002"]),
        ("# doctor: ignore[SCR101, SCR144] why", 0, []),
    ],
)
def test_suppressions(here: Path, comment: str, code: int, reported: list[str]) -> None:
    (here / "train.py").write_text(SCRIPT.replace("1.0)", f"1.0)  {comment}"))
    result = run(here, *ONLY, "--format", "plain")
    assert result.returncode == code
    assert [line.split()[1] for line in result.stdout.splitlines()[:-1]] == reported


def test_a_cache_keeps_results_by_content(here: Path) -> None:
    lint = (*ONLY, "--format", "plain", "--cache", "kept")
    first = run(here, *lint).stdout
    (entry,) = (here / "kept" / "doctor-lint").iterdir()
    entry.write_text(entry.read_text().replace("gradients are clipped", "kept: gradients"))
    assert "kept: gradients" in run(here, *lint).stdout
    (here / "train.py").write_text(SCRIPT + "\n")
    assert run(here, *lint).stdout == first
    entry.write_text("{")
    (here / "train.py").write_text(SCRIPT)
    assert run(here, *lint).stdout == first


def test_a_launch_line_alone_is_read(here: Path) -> None:
    (here / "run.sh").write_text("torchrun train.py\n")
    assert "SCR101" in run(here, "run.sh", "--format", "plain").stdout
    (here / "run.sh").write_text("torchrun other.py\n")
    assert run(here, "run.sh", "--format", "plain").returncode == 0


def test_an_unused_suppression_is_reported(here: Path) -> None:
    (here / "train.py").write_text("x = 1  # doctor: ignore[SCR101] nothing here\n")
    result = run(here, "--fail-on", "warn", "--format", "plain")
    assert result.returncode == 1
    assert "SCR002" in result.stdout


def test_the_job_file_ignores_and_excludes(here: Path) -> None:
    (here / "old").mkdir()
    (here / "old" / "a.py").write_text(SCRIPT)
    (here / "doctor.toml").write_text('[lint]\nexclude = ["old"]\n')
    assert run(here, *ONLY, "--format", "plain").stdout.endswith("1 file: 1 failure\n")
    (here / "doctor.toml").write_text('[lint]\nper-file-ignores = {"old/*" = ["SCR101"]}\n')
    assert run(here, *ONLY, "--format", "plain").stdout.endswith("2 files: 1 failure\n")
    (here / "doctor.toml").write_text('[lint]\nignore = ["clip-without-unscale"]\n')
    assert run(here, *ONLY).returncode == 0
    assert run(here, *ONLY, "--no-config").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.py",), "nowhere.py does not exist"),
        (("--only", "SCR999"), "no check on scripts is called 'scr999'"),
        (("--fix", "--diff"), "--fix cannot be combined with --diff"),
        (("--unsafe-fixes",), "--unsafe-fixes requires --fix or --diff"),
        (("-", "train.py"), "- cannot be combined with other paths"),
        (("--format", "xml"), "xml"),
        (("--no-such-flag",), "no-such-flag"),
        (("--output", "xml=a"), "unknown format 'xml'"),
    ],
)
def test_usage_errors_are_one_line(here: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run(here, *arguments)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert message in line


def test_a_broken_file_is_a_warning_and_the_others_go_on(here: Path) -> None:
    (here / "broken.py").write_text("def f(:\n")
    result = run(here, *ONLY, "--format", "plain")
    assert "broken.py:1:7 SCR001" in result.stdout
    assert "train.py:5:5 SCR101" in result.stdout


@pytest.mark.parametrize(
    "arguments", [(), ("-q",), ("--format", "plain"), ("--color", "always"), ("--format", "github")]
)
def test_a_lint_that_read_nothing_is_no_pass(here: Path, arguments: tuple[str, ...]) -> None:
    (here / "train.py").rename(here / "notes.txt")
    result = run(here, *arguments)
    assert result.returncode == 3
    assert "no findings" not in result.stdout
    assert "no script was read; name a script, or a directory that" in result.stdout
    assert run(here, *arguments, "--fail-on", "never").returncode == 0


def test_rules_that_judged_nothing_are_unknown(here: Path) -> None:
    (here / "train.py").unlink()
    (here / "run.sh").write_text("python train.py\n")  # launch lines alone are no script
    report = json.loads(run(here, "--format", "json").stdout)
    assert report["exit_code"] == 3
    assert {finding["status"] for finding in report["findings"]} == {"unknown"}
    assert "no script was read" in report["headline"]
    diff = run(here, "--diff")
    assert diff.returncode == 3
    assert "no script was read" in diff.stderr


def test_a_named_file_of_another_kind_was_read(here: Path) -> None:
    """What hooks pass to the command is not always a script."""
    (here / "README.md").write_text("# Training\n")
    result = run(here, "README.md")
    note = "note README.md is no script, and was not read\n"
    assert (result.returncode, result.stdout) == (0, f"1 file: no findings\n{note}")


@pytest.mark.parametrize(
    ("name", "command"),
    [("train.log", "triage"), ("model.pt", "scan"), ("chats.jsonl", "data")],
)
def test_a_file_of_another_command_is_a_usage_error(here: Path, name: str, command: str) -> None:
    (here / name).write_text("x\n")
    result = run(here, name)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"doctor: {name} is no script; doctor {command} {name} reads it\n"
    assert run(here, name, "train.py").returncode != 2


def test_a_tracked_file_that_is_ignored_is_told(here: Path) -> None:
    (here / "output").mkdir()
    (here / "train.py").rename(here / "output/train.py")
    (here / ".gitignore").write_text("output/\n")
    result = run(here, *ONLY, "-q")
    assert result.returncode == 3
    assert "not read: output (a directory that .gitignore" in result.stdout
    assert "not read: output (" in run(here, "--format", "json").stdout
    assert run(here, *ONLY, "output").returncode == 1


def test_what_is_absent_is_told_once_per_run(here: Path) -> None:
    (here / "other.py").write_text(SCRIPT)
    result = run(here, "--only", "seed-not-set", "--format", "plain")
    assert result.returncode == 0
    assert result.stdout.count("SCR172") == 1


def test_undecided_is_shown_on_request(here: Path) -> None:
    (here / "train.py").write_text(
        "import torch\nwith torch.autocast('cuda', dtype=args.dtype):\n    loss = model(x)\n"
        "loss.backward()\n"
    )
    arguments = ("--only", "SCR102", "--format", "plain")
    assert run(here, *arguments).stdout == "1 file: 1 undecided (-v)\n"
    assert "SCR102" in run(here, *arguments, "-v").stdout


def test_facts_of_a_machine_decide(here: Path) -> None:
    (here / "train.py").write_text(
        "import transformers\n"
        "trainer = transformers.Trainer(model, transformers.TrainingArguments('o', bf16=True))\n"
    )
    facts = Path(__file__).parents[1] / "machines" / "h200_torch2.11.json"
    arguments = ("--only", "SCR114", "--format", "plain")
    assert "SCR114" in run(here, *arguments).stdout
    assert "SCR114" not in run(here, *arguments, "--facts", str(facts)).stdout


def test_run_judges_the_script_of_the_job(here: Path) -> None:
    facts = Path(__file__).parents[1] / "machines" / "h200_torch2.11.json"
    result = doctor("run", "--facts", facts, "--script", "train.py", "--format", "json", cwd=here)
    assert ("SCR101", "train.py", 5, 5) in places(result)
    assert result.returncode == 1
    missing = doctor("run", "--facts", facts, "--script", "nowhere.py", cwd=here)
    assert missing.returncode == 2


def test_a_named_file_that_no_rule_is_for_is_not_judged(here: Path) -> None:
    """Where no rule looks, finding nothing says nothing."""
    (here / "own.yml").write_text("CartPole-v1:\n  n_timesteps: 50000\n")
    (here / "run.sh").write_text("fairseq-train data --lr 5e-7\n")
    (here / "ds.json").write_text('{"zero_optimization": {"stage": 2}, "train_batch_size": 8}')
    (here / "config.py").write_text('model = dict(type="SSD")\n')
    (here / "model.py").write_text("import torch\n\nnet = torch.nn.Linear(2, 2)\n")
    for name, reason in (
        ("own.yml", "no known format of a training's configuration in it"),
        ("run.sh", "no known launcher in it"),
        ("config.py", "it trains nothing and imports no training library that is known"),
    ):
        result = run(here, name)
        expected = f"1 file: not judged\nnote {name} is not judged: {reason}\n"
        assert (result.returncode, result.stdout) == (0, expected)
        cached = [run(here, name, "--cache", "kept").stdout for _ in range(2)]
        assert cached == [expected, expected]
    assert run(here, "ds.json", "model.py").stdout == "2 files: no findings\n"
    assert run(here, "own.yml", "model.py").stdout.startswith(
        "2 files: no findings in what is judged\n"
    )
