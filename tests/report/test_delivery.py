"""Reports that go to files, to stdout and to GitHub, from real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import command
import pytest
from recorded import machine_file

from doctor import catalog
from doctor.facts.facts import decode, encode
from doctor.report.formats.table import FORMATS

pytestmark = pytest.mark.slow


def doctor(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return command.doctor(*arguments, cwd=cwd, env={**os.environ, **env})


def machine(name: str) -> str:
    return str(machine_file(name))


@pytest.mark.parametrize("command", [("report",), ("run", "--no-config", "--facts")])
def test_one_run_writes_every_format(command: tuple[str, ...], tmp_path: Path) -> None:
    flags = [part for name in FORMATS for part in ("--output", f"{name}=out.{name}")]
    done = doctor(*command, machine("v100_torch2.11"), *flags, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[-1].startswith("FIX: ")
    for name in FORMATS:
        assert (tmp_path / f"out.{name}").read_text().endswith("\n")
    assert {path.name for path in tmp_path.iterdir()} == {f"out.{name}" for name in FORMATS}
    assert json.loads((tmp_path / "out.json").read_text())["verdict"] == "fix"
    assert (tmp_path / "out.plain").read_text() == done.stdout


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_printed_completely_if_stdout_is_ascii(format: str, tmp_path: Path) -> None:
    done = doctor(
        "report", machine("cpu_only"), "--format", format, cwd=tmp_path, PYTHONIOENCODING="ascii"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    if format == "gitlab":  # which has findings in files alone
        assert json.loads(done.stdout) == []
    else:
        assert len(done.stdout) > 50  # of a letter, that there is nothing to send


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (("html",), "FORMAT=FILE"),
        (("html=",), "FORMAT=FILE"),
        (("htlm=a",), "html"),
        (("pdf=a",), "pdf"),
        (("json=/nonexistent/a",), "/nonexistent/a"),
        (("json=/dev/null",), "/dev/null"),
        (("json=.",), "regular file"),
        (("json=a", "html=a"), "named twice"),
        (("json=a", "html=sub/../a"), "named twice"),
        (("json=-", "html=-"), "named twice"),
        (("json=" + "o" * 300,), "cannot be written"),
    ],
)
def test_an_output_that_cannot_be_written_is_an_error_before_the_run(
    outputs: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    flags = [part for output in outputs for part in ("--output", output)]
    done = doctor("run", "--device", "cpu", *flags, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_written_completely_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("before")
    command = (
        f"ulimit -f 1; {sys.executable} -B -P -m doctor report {machine('a100')} --output "
        "json=out.json 2>&1 | cat"
    )
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.stdout.splitlines()[-1].startswith("doctor: --output out.json: ")
    assert (tmp_path / "out.json").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_files_are_written_although_the_reader_of_stdout_closes_it_early(tmp_path: Path) -> None:
    command = (
        f"{sys.executable} -P -m doctor report {machine('a100')} --format html --output "
        "html=page.html | head -c 10"
    )
    subprocess.run(["bash", "-c", command], capture_output=True, cwd=tmp_path, timeout=120)
    assert (tmp_path / "page.html").read_text().endswith("</html>\n")


def test_nagios_has_its_own_exit_codes(tmp_path: Path) -> None:
    codes = {"h100_torch2.15": 0, "fp32_with_leftovers": 1, "v100_torch2.11": 2}
    codes["nothing_readable"] = 3
    for name, code in codes.items():
        done = doctor("report", machine(name), "--format", "nagios", cwd=tmp_path)
        assert (done.returncode, len(done.stdout.splitlines())) == (code, 1)
    for mistake in (("none.json",), (machine("a100"), "--no-such-flag")):
        done = doctor("report", *mistake, "--format", "nagios", cwd=tmp_path)
        assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    file = ("report", machine("v100_torch2.11"), "--output", "nagios=line")
    assert doctor(*file, cwd=tmp_path).returncode == 1


def test_github_receives_the_summary_and_outputs(tmp_path: Path) -> None:
    step, out = tmp_path / "summary", tmp_path / "out"
    step.write_text("# earlier\n")
    flags = ("--format", "github", "--output", "html=page.html")
    environ = {"GITHUB_STEP_SUMMARY": str(step), "GITHUB_OUTPUT": str(out)}
    done = doctor("report", machine("throttled"), *flags, cwd=tmp_path, **environ)
    assert done.returncode == 0
    assert step.read_text().startswith("# earlier\n## doctor: ✅ READY with warnings\n")
    assert "verdict<<" in out.read_text()
    assert "\npage.html\n" in out.read_text()
    plain = doctor(
        "report", machine("throttled"), cwd=tmp_path, GITHUB_OUTPUT=str(tmp_path / "none")
    )
    assert plain.returncode == 0
    assert not (tmp_path / "none").exists()


def test_a_summary_that_cannot_be_written_is_a_one_line_error(tmp_path: Path) -> None:
    done = doctor(
        "report", machine("t4"), "--format", "github", cwd=tmp_path,
        GITHUB_STEP_SUMMARY=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("format", ["console", "plain", "json", "html", "markdown"])
def test_annotate_adds_the_limitations_of_a_pass(format: str, tmp_path: Path) -> None:
    (check,) = catalog.find("SMK001")
    flags = ("report", machine("a100"), "--format", format)
    plain, annotated = (
        doctor(*flags, *more, cwd=tmp_path).stdout for more in ((), ("--annotate",))
    )
    assert check.limits not in plain
    assert check.limits in annotated


def test_report_accepts_the_flags_of_a_replay(tmp_path: Path) -> None:
    flags = ("--only", "NUM", "--skip", "NUM006", "--fail-on", "warn", "--format", "json")
    done = doctor("report", machine("fp32_with_leftovers"), *flags, cwd=tmp_path)
    assert done.returncode == 1
    codes = {each["code"] for each in json.loads(done.stdout)["findings"]}
    assert codes >= {"NUM001", "NUM002", "NUM003"}
    assert "NUM006" not in codes
    assert {code[:3] for code in codes} == {"NUM"}
    broken = doctor("report", str(tmp_path / "none.json"), cwd=tmp_path)
    assert (broken.returncode, len(broken.stderr.splitlines())) == (2, 1)


def test_a_live_run_redacts_the_home_directory_and_its_facts_file_says_that_it_does_not(
    tmp_path: Path,
) -> None:
    home = tmp_path / "people" / "maria"
    home.mkdir(parents=True)
    environ = {"HOME": str(home), "NCCL_DEBUG": "INFO", "TORCH_LOGS": "+apollo_module"}
    flags = ("run", "--device", "cpu", "--no-smoke", "--no-config", "--only", "DSK,NUM004")
    saved = ("--save-facts", "facts.json", "--output", "html=page.html")
    done = doctor(*flags, *saved, cwd=tmp_path, **environ)
    assert "~/.cache/huggingface" in done.stdout
    assert "TORCH_LOGS=[redacted]" in done.stdout
    assert "maria" not in done.stdout + (tmp_path / "page.html").read_text()
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["host"]["env"]["TORCH_LOGS"] == "+apollo_module"
    assert facts["host"]["home"] == str(home)
    assert "values of environment variables" in facts["holds"]
    shown = doctor("report", "facts.json", "--no-redact", cwd=tmp_path)
    assert f"{home}/.cache/huggingface" in shown.stdout


def test_a_report_cannot_overwrite_the_facts_or_another_report(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a")
    run = ("run", "--no-config", "--facts", machine("a100"))
    for flags in (("--save-facts", "a"), ("--output", "html=a")):
        done = doctor(*run, *flags, "--output", "json=link", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert "named twice" in done.stderr
    assert not (tmp_path / "a").exists()


def test_a_file_name_of_the_maximum_length_is_written(tmp_path: Path) -> None:
    name = "o" * 255
    assert doctor("report", machine("a100"), "--output", f"json={name}", cwd=tmp_path).stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("flag", ["--checkpoint", "--output-dir"])
def test_a_path_that_is_not_utf8_is_a_usage_error(flag: str, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    done = doctor("run", "--no-config", flag, str(folder), "--save-facts", "f", cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "UTF-8" in done.stderr


def piped(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A line of bash in which `doctor` is the command."""
    script = f'set -o pipefail; doctor() {{ {sys.executable} -P -m doctor "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", script], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    "line",
    [
        "cat {file} | doctor report - --format json",
        "cat {file} | doctor run --no-config --facts - --format json",
        "doctor report /dev/stdin --format json < {file}",
        "cat {file} | doctor report /dev/stdin --output json=-",
        "doctor report <(sleep 1; cat {file}) --output json=-",
        "doctor run --no-config --facts {file} --save-facts - | doctor report - --format json",
    ],
)
def test_facts_and_reports_are_piped(line: str, tmp_path: Path) -> None:
    done = piped(line.format(file=machine("v100_torch2.11")), tmp_path)
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]) == (1, "fix")
    assert list(tmp_path.iterdir()) == []


def test_facts_on_stdout_leave_the_verdict_to_stderr(tmp_path: Path) -> None:
    flags = ("--no-config", "--save-facts", "-", "--output", "json=report.json")
    done = doctor("run", "--facts", machine("v100_torch2.11"), *flags, cwd=tmp_path)
    assert done.stdout.encode() == encode(decode(done.stdout.encode()))
    assert done.stderr.startswith("FIX: ")
    assert len(done.stderr.splitlines()) == 1
    assert json.loads((tmp_path / "report.json").read_text())["exit_code"] == done.returncode == 1


@pytest.mark.parametrize(
    "flags",
    [
        ("--save-facts", "-", "--format", "json"),
        ("--save-facts", "-", "--output", "json=-"),
        ("--save-facts", "-", "--context", "prolog", "--format", "plain"),
        ("--output", "json=-", "--format", "html"),
        ("--quiet", "--verbose"),
    ],
)
def test_flags_that_contradict_each_other_are_a_usage_error(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    done = doctor("run", "--facts", machine("t4"), *flags, cwd=tmp_path)
    if "prolog" in flags:  # a usage error lets the job start
        assert (done.returncode, "not examined" in done.stdout) == (0, True)
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("line", ["doctor report - < /dev/null", "false | doctor report -"])
def test_an_empty_stdin_is_a_usage_error(line: str, tmp_path: Path) -> None:
    done = piped(line, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "empty" in done.stderr


FULL_DISK = "export PYTHONDONTWRITEBYTECODE=1; ulimit -f 1;"
"""A limit on the size of files stands for the disk; it would truncate cached bytecode, too."""


def test_every_file_that_a_full_disk_loses_is_named(tmp_path: Path) -> None:
    flags = "--save-facts f.json --output json=r.json --output nagios=r.txt --output sarif=r.sarif"
    line = f"{FULL_DISK} doctor run --no-config --facts {machine('t4')} {flags}"
    done = piped(line, tmp_path)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].startswith("READY")
    assert all(name in done.stderr for name in ("f.json", "r.json", "r.sarif"))
    assert [path.name for path in tmp_path.iterdir()] == ["r.txt"]


def test_a_job_file_that_does_not_fit_on_the_disk_is_not_left_empty(tmp_path: Path) -> None:
    done = piped(f"{FULL_DISK} doctor init", tmp_path)
    assert done.returncode == 2
    assert "doctor.toml" in done.stderr
    assert list(tmp_path.iterdir()) == []
