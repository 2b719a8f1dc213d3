"""The commands as real processes: what they print, where, and how they exit."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import command
import preloaded
import pytest
from command import TIMEOUT
from recorded import machine_file

from doctor import __version__

DOCTOR = [sys.executable, "-m", "doctor"]


def doctor(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "100"} | dict(options.pop("env", {}))  # type: ignore[call-overload]
    return command.doctor(*arguments, env=env, **options)  # type: ignore[arg-type]


def replay(machine: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return doctor("run", "--facts", str(machine_file(machine)), *arguments, **options)


def test_version() -> None:
    assert doctor("--version").stdout == f"doctor {__version__}\n"


def test_no_command_prints_the_help() -> None:
    done = doctor()
    assert done.returncode == 0
    assert "run" in done.stdout
    assert "explain" in done.stdout


@pytest.mark.parametrize(
    ("machine", "flags", "code"),
    [
        ("h100_torch2.15", (), 0),
        ("v100_torch2.11", (), 1),
        ("v100_torch2.11", ("--fail-on", "never"), 0),
        ("t4", ("--fail-on", "warn"), 0),
        ("throttled", (), 0),
        ("throttled", ("--fail-on", "warn"), 1),
        ("nothing_readable", (), 3),
        ("hung_driver", (), 1),
    ],
)
def test_exit_codes(machine: str, flags: tuple[str, ...], code: int) -> None:
    done = replay(machine, *flags)
    assert done.returncode == code, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("explain", "NUM02"), "NUM002"),
        (("explain", "qqqqqq"), "doctor list"),
        (("run", "--only", "XYZ"), "XYZ"),
        (("run", "--facts", "/nonexistent/facts.json"), "/nonexistent/facts.json"),
        (("run", "--facts", "/"), "directory"),
        (("run", "--facts", "README.md", "--keep", "0"), "keep"),
        (("run", "--params", "many"), "many"),
        (("run", "--params", "0"), "count"),
        (("run", "--device", "tpu"), "tpu"),
        (("run", "--python", "/nonexistent/python"), "/nonexistent/python"),
        (("run", "--checkpoint", "/nonexistent/ckpt"), "/nonexistent/ckpt"),
        (("run", "--save-facts", "/nonexistent/f.json"), "/nonexistent/f.json"),
        (("run", "--no-such-flag"), "--no-such-flag"),
        (("run", "--params", "9" * 400), "count"),
        (("run", "--params", "8B", "--trainable", "9B"), "--trainable"),
        (("run", "--device", "cpu", "--gpus", "8"), "--gpus"),
        (("run", "--recipe", "pure-bf16", "--precision", "fp32"), "pure-bf16"),
        (("run", "--only", "NUM", "--skip", "NUM"), "leave no check"),
        (("run", "--python", "~nosuchuser/bin/python"), "~nosuchuser"),
        (("run", "--save-facts", "/dev/null"), "/dev/null"),
        (("cure",), "cure"),
        (("run", "--gpus", "x"), "--gpus"),
        (("run", "--gpus", "0"), "'0'"),
        (("run", "--shards", "9" * 23), "whole number from 1 to"),
        (("run", "--params", "9" * 25 + "B"), "1000T"),
        (("run", "--fail-on", "warning"), "did you mean warn?"),
        (("run", "-q", "-v"), "--quiet"),
        (("run", "--checkpoint", "foo://bar"), "unknown scheme foo://"),
        (("scan", "foo://user:secret@bar"), "foo://bar: unknown scheme"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_2(arguments: tuple[str, ...], said: str) -> None:
    done = doctor(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("doctor: ")
    assert done.stdout == ""


def test_what_must_be_looked_at_here_is_not_judged_from_a_file() -> None:
    done = replay("h100_torch2.15", "--output-dir", "/data")
    assert done.returncode == 2
    assert "--output-dir" in done.stderr


def test_flags_that_are_given_override_the_job_of_the_facts_file() -> None:
    done = replay("t4", "--precision", "bf16", "--format", "json", "--only", "NUM001")
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["status"] == "fail"
    assert done.returncode == 1


def test_json_holds_what_it_promises() -> None:
    done = replay("h200_torch2.11", "--format", "json")
    report = json.loads(done.stdout)
    assert set(report) == {
        "schema_version",
        "doctor",
        "verdict",
        "exit_code",
        "python",
        "job",
        "counts",
        "findings",
        "seconds",
        "config",
        "notes",
        "started",
        "command",
        "host",
        "gpus",
        "driver",
        "torch",
        "stages",
        "schema",
        "headline",
    }
    assert report["exit_code"] == done.returncode
    assert sum(report["counts"].values()) == len(report["findings"])
    for finding in report["findings"]:
        assert set(finding) == {
            "actions",
            "causes",
            "code",
            "slug",
            "family",
            "status",
            "summary",
            "fix",
            "commands",
            "owner",
            "sources",
            "seconds",
            "ignored",
            "places",
            "retry",
        }
        assert all({"id", "title", "section", "url"} <= set(s) for s in finding["sources"])
        assert bool(finding["fix"]) == (finding["status"] in ("warn", "fail"))


def test_only_and_skip_choose_by_code_slug_and_family() -> None:
    def codes(*flags: str) -> set[str]:
        report = json.loads(replay("h100_torch2.15", "--format", "json", *flags).stdout)
        return {finding["code"] for finding in report["findings"]}

    assert codes("--only", "NUM") == {f"NUM00{n}" for n in range(1, 7)}
    assert codes("--only", "num", "--skip", "tf32-setting") == {
        f"NUM00{n}" for n in (1, 3, 4, 5, 6)
    }
    assert codes("--only", "SMK001", "--only", "DRV") == {"SMK001", "DRV001", "DRV002", "DRV003"}
    assert not codes("--skip", "GPU") & {"GPU001", "GPU002", "GPU003", "GPU004"}


def test_a_filter_takes_several_names_at_once() -> None:
    done = replay("h100_torch2.15", "--only", "NUM001,DRV", "--format", "json")
    codes = {finding["code"] for finding in json.loads(done.stdout)["findings"]}
    assert codes == {"NUM001", "DRV001", "DRV002", "DRV003"}


def test_chosen_checks_that_could_not_be_judged_are_no_pass() -> None:
    assert replay("hung_driver", "--only", "GPU").returncode == 3
    assert replay("no_driver", "--only", "NUM", "--fail-on", "warn").returncode == 3
    assert replay("h100_torch2.15", "--only", "CKP").returncode == 3


def test_a_filtered_run_still_knows_what_comes_first() -> None:
    done = replay("no_driver", "--only", "SMK001", "--format", "json")
    assert json.loads(done.stdout)["findings"][0]["status"] == "unknown"


def test_explain_prints_conditions_and_sources() -> None:
    done = doctor("explain", "NUM002")
    for word in ("NUM002 tf32-setting", "Passes", "Warns", "Fix", "Sources", "https://"):
        assert word in done.stdout
    several = json.loads(doctor("explain", "U28", "--format", "json").stdout)
    assert {"DRV001", "SMK001"} <= {check["code"] for check in several}


def test_list_prints_every_check() -> None:
    plain = re.findall(r"(?m)^  ([A-Z]{3}\d{3})  ", doctor("list").stdout)
    checks = json.loads(doctor("list", "--format", "json").stdout)
    assert plain == [check["code"] for check in checks]


def test_quiet_shows_complaints_and_the_verdict_only() -> None:
    well = replay("h100_torch2.15", "--quiet").stdout.strip().splitlines()
    assert well[-1].startswith("READY")
    assert "DRV001" not in "".join(well)
    assert "GPU003" in replay("row_remap_failed", "--quiet").stdout


def test_quiet_keeps_the_notes(tmp_path: Path) -> None:
    """A quiet READY says what was left out."""
    (tmp_path / "doctor.toml").write_text(
        "[[ignore]]\ncode = 'NUM'\nreason = 'x'\nuntil = 2020-01-01\n", "utf-8"
    )
    job_file = str(tmp_path / "doctor.toml")
    told = replay("h100_torch2.15", "--quiet", "--config", job_file).stdout
    assert "note [[ignore]] 1 of NUM (x)" in told
    assert "note" not in replay("h100_torch2.15", "--quiet").stdout


def test_a_value_that_no_flag_takes_is_told_plainly() -> None:
    told = doctor("run", "--format", "foo").stderr
    assert "'foo' is not one of 'console'" in told
    assert "Value error" not in told


def test_verbose_shows_sources_of_passing_checks() -> None:
    assert "see: " not in replay("h100_torch2.15").stdout
    assert "see: " in replay("h100_torch2.15", "--verbose").stdout


def test_addresses_stay_whole_where_the_output_is_no_terminal() -> None:
    lines = replay("v100_torch2.11").stdout.splitlines()
    assert any(line.rstrip().endswith(">") and "https://" in line for line in lines)
    assert max(map(len, lines)) > 100


@pytest.mark.slow
def test_an_ascii_stream_gets_ascii() -> None:
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    for format in ("console", "plain", "json"):
        done = replay("v100_torch2.11", "--format", format, env=env)
        assert done.returncode == 1, done.stderr
        assert done.stdout.isascii()


def test_no_colour_without_a_terminal_and_colour_when_asked() -> None:
    assert "\x1b[" not in replay("v100_torch2.11").stdout
    assert "\x1b[" in replay("v100_torch2.11", "--color", "always").stdout
    assert "\x1b[" not in replay("v100_torch2.11", "--color", "never").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("list", 0),
        ("explain CKP004", 0),
        ("explain CKP004 --format json", 0),
        ("--help", 0),
        ("run --facts {h100}", 0),
        ("run --facts {v100}", 1),
        ("report {v100} --format html", 1),
        ("report {v100} --color always", 1),
        ("report {h100} --format json", 0),
        ("scan /nonexistent/checkpoint", 2),
    ],
)
def test_a_closed_pipe_does_not_change_the_exit_code(arguments: str, code: int) -> None:
    files = {"h100": machine_file("h100_torch2.15"), "v100": machine_file("v100_torch2.11")}
    program = shlex.join(command.program())
    line = f"{program} {arguments.format(**files)} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr


DROPPED = """
import signal, sys, time
from doctor.cli import main
signal.signal(signal.SIGINT, main._interrupt)
sys.unraisablehook = main._raise_again
class Dropped:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)
try:
    Dropped()
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit(128 + main._received[0])
"""


def test_a_signal_inside_a_destructor_is_not_lost() -> None:
    done = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "context", "code"),
    [
        (signal.SIGINT, "job", 130),
        (signal.SIGTERM, "job", 143),
        (signal.SIGTERM, "prolog", 0),  # the job may start
    ],
)
def test_a_signal_during_the_run_is_the_exit_code(
    number: int, context: str, code: int, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "started")
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\necho > '{tmp_path}/started'\nsleep 600\n")
    interpreter.chmod(0o755)
    flags = ["run", "--device", "cpu", "--no-config", "--python", str(interpreter)]
    flags += ["--context", context]
    doctor = subprocess.Popen([*DOCTOR, *flags], stderr=subprocess.PIPE, text=True)
    (tmp_path / "started").read_text()  # returns once the interpreter runs
    doctor.send_signal(number)
    _, errors = doctor.communicate(timeout=TIMEOUT)
    assert "Traceback" not in errors
    assert doctor.returncode == code


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.slow
def test_closed_streams_change_no_verdict(closed: str) -> None:
    flags = f"--device cpu --no-smoke --python {preloaded.python()}"
    command = f"{sys.executable} -m doctor run {flags} {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_full_disk_is_one_line() -> None:
    command = f"{sys.executable} -m doctor list > /dev/full"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.splitlines() == ["doctor: the report could not be written: the disk is full"]


def test_a_facts_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = doctor("run", "--facts", str(tmp_path / "pipe"))
    assert done.returncode == 2
    assert "pipe" in done.stderr


@pytest.mark.parametrize("environment", [sys.prefix, ""], ids=["active", "none"])
def test_a_working_directory_that_is_gone_is_one_line(tmp_path: Path, environment: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd '{gone}' && rmdir '{gone}' && {sys.executable} -P -m doctor run --device cpu"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        env={**os.environ, "VIRTUAL_ENV": environment, "CONDA_PREFIX": ""},
    )
    assert done.returncode == 2
    assert "working directory" in done.stderr


def test_facts_that_cannot_be_written_leave_no_draft(tmp_path: Path) -> None:
    command = (
        f"ulimit -f 1; {sys.executable} -B -m doctor run --facts {machine_file('a100')} "
        f"--save-facts '{tmp_path / 'x.json'}'"
    )
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode in (2, 3)
    assert list(tmp_path.iterdir()) == []


def test_hostile_facts_are_no_traceback(tmp_path: Path) -> None:
    data = json.loads(machine_file("a100").read_bytes())
    data["host"]["env"] = {"CUDA_VISIBLE_DEVICES": "9" * 5000}
    data["cuda"] = None
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(data))
    done = doctor("run", "--facts", str(path))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_names_of_strangers_are_neither_markup_nor_terminal_codes(tmp_path: Path) -> None:
    data = json.loads(machine_file("full_disk").read_bytes())
    data["places"][0]["path"] = "/data/[bold]x[/x]\x1b[2J\r\n"
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(data))
    for format in ("console", "plain"):
        done = doctor("run", "--facts", str(path), "--format", format)
        assert done.returncode == 1, done.stderr
        assert "\x1b" not in done.stdout
        assert "[bold]x[/x]" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("explain", "NUM002"),
        ("explain", "ValueError: optimizer got an empty parameter list"),
        ("list", "GPU"),
    ],
    ids=" ".join,
)
def test_what_only_prints_texts_imports_no_check(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys; sys.argv = ['doctor', *sys.argv[1:]]\n"
        "from doctor.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'pynvml', 'transformers', 'safetensors', 'msgspec',\n"
        "         'doctor.catalog', 'doctor.checks', 'doctor.judge.check'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert "HEAVY []" in done.stdout


def test_a_relative_interpreter_is_the_one_that_is_examined(tmp_path: Path) -> None:
    """Not the one of the same name on PATH."""
    (tmp_path / "python").symlink_to("/bin/false")
    env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    flags = ("--device", "cpu", "--no-smoke", "--only", "TOR001", "--format", "json")
    done = doctor("run", *flags, "--python", "./python", cwd=tmp_path, env=env)
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]) == (1, "fix")
    assert Path(report["python"]).expanduser() == tmp_path / "python"


@pytest.mark.slow
def test_a_zip_archive_judges_and_does_not_examine(tmp_path: Path) -> None:
    """Probes are started as files, which an archive does not have."""
    archive = tmp_path / "doctor.pyz"
    spec = importlib.util.find_spec("doctor")
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parents[1]  # also where the sources are out of reach
    with zipfile.PyZipFile(str(archive), "w") as file:
        file.writestr("__main__.py", "from doctor.cli.main import main; main()")
        file.writepy(str(root / "doctor"))
        file.write(root / "doctor/errors/index.json", "doctor/errors/index.json")

    def run(*flags: str) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, "-P", str(archive), *flags]
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    judged = run("report", str(machine_file("h100_torch2.15")))
    assert (judged.returncode, judged.stderr) == (0, "")
    for flags in (("run", "--device", "cpu", "--no-config"), ("scan", "."), ("init",)):
        done = run(*flags)
        assert (done.returncode, done.stdout) == (2, "")
        assert "zip archive" in done.stderr
