"""Actions: the doctor's command lines as words, and nothing that a machine could have written."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import machines
from reports import HOSTILE, finding, judged

from doctor import catalog
from doctor.judge.check import PIP, Finding, Owner, Status, Verdict, fail
from doctor.judge.place import Change, Place
from doctor.report.actions import ROWS, Action, actions_of, labelled
from doctor.report.remedy import steps

PROSE = re.compile(
    r"echo |CUDA_LAUNCH_BLOCKING=1 |TORCH_DISTRIBUTED_DEBUG=|TORCH_LOGS=|ulimit |ss -|sacct |"
    r"py-spy |setsid |nc -|gcc --version; |findmnt --target |docker run|df -hi |"
    r"export LD_LIBRARY_PATH=|grep -rs |"
    r"doctor (?:scan FILE|scan MERGED|triage LOG)|python -X faulthandler|"
    r"export DOCTOR_FLEET_SECRET="
)
"""Lines with a placeholder, a shell's own syntax or a program of the user's."""


def of(*commands: str, **fields: object) -> tuple[Action, ...]:
    verdict = fail("it fails", *commands)
    return actions_of(replace(finding("NUM901", Status.FAIL), verdict=verdict, **fields))  # type: ignore[arg-type]


def all_lines() -> set[str]:
    static = {line for check in catalog.CHECKS for line in check.commands}
    made = {
        line
        for facts in machines().values()
        for found in judged(facts).findings
        for line in found.verdict.commands
    }
    return static | made


def test_every_command_line_has_an_action_or_is_prose() -> None:
    without = {line for line in all_lines() if not of(line)}
    assert {line for line in without if not PROSE.match(line)} == set()
    assert len(all_lines() - without) > 25


def test_every_row_is_needed() -> None:
    lines = all_lines()
    unused = [
        row.pattern
        for row in ROWS
        if not any(re.fullmatch(row.pattern, line) for line in lines)
        and not re.fullmatch(row.pattern, "sudo nvidia-smi -i 0 -c DEFAULT")
    ]
    assert unused == []


@pytest.mark.parametrize(
    ("line", "kind", "argv", "needs", "safe"),
    [
        ("nvidia-smi -q -d POWER", "look", "nvidia-smi -q -d POWER", "nothing", "look"),
        ("sudo dmesg -T | grep -iE 'killed process|oom'", "look", "sudo dmesg -T", "root", "look"),
        ("doctor run --only SMK002,NUM001", "run", "doctor run --only SMK002,NUM001", "nothing",
         "look"),
        ("doctor run --precision fp32", "run", "doctor run --precision fp32", "nothing", "look"),
        ("TORCH_CUDNN_SDPA_DEPRIORITIZED=1 doctor run", "run", "doctor run", "nothing", "look"),
        ("sudo nvidia-smi -i 3 -c DEFAULT", "run", "sudo nvidia-smi -i 3 -c DEFAULT", "root",
         "never"),
        ('python -m pip install "torch==2.15.*" --index-url https://download.pytorch.org/whl/cu130',
         "install", "/opt/venv/bin/python -m pip install torch==2.15.* --index-url "
         "https://download.pytorch.org/whl/cu130", "network", "never"),
        ("export NCCL_DEBUG=INFO", "set-env", "", "restart", "apply"),
        ("unset NVIDIA_TF32_OVERRIDE", "set-env", "", "restart", "apply"),
        ("torch.backends.cuda.enable_cudnn_sdp(False)", "edit", "", "restart", "never"),
    ],
)  # fmt: skip
def test_a_line_becomes_words(line: str, kind: str, argv: str, needs: str, safe: str) -> None:
    (action,) = of(line, python="/opt/venv/bin/python")
    assert (action.kind, action.argv, action.needs, action.safe) == (
        kind,
        tuple(argv.split()),
        needs,
        safe,
    )


def test_the_values_of_variables_and_statements_are_fields() -> None:
    (one, other, statement) = of(
        "export NCCL_P2P_LEVEL=LOC",
        "unset CUDA_LAUNCH_BLOCKING",
        "torch.backends.cuda.enable_flash_sdp(False)",
    )
    assert one.env == {"NCCL_P2P_LEVEL": "LOC"}
    assert other.env == {"CUDA_LAUNCH_BLOCKING": None}
    assert statement.statement == "torch.backends.cuda.enable_flash_sdp(False)"


def test_a_command_between_the_sentences_of_a_fix_is_one() -> None:
    found = finding("SMK002", Status.FAIL)
    fails = replace(found, check=catalog.find("SMK002")[0])
    assert [action.argv for action in actions_of(fails)] == [
        ("doctor", "run", "--precision", "fp32"),
        ("doctor", "run"),
    ]
    assert [kind for kind, _ in labelled(fails)] == ["run", "run"]


def test_an_interpreter_without_pip_is_installed_into_by_uv() -> None:
    (action,) = of("python -m pip install torch", python="~/v/bin/python", pip=False)
    assert action.argv == ("uv", "pip", "install", "--python", "~/v/bin/python", "torch")
    assert of("python -m pip install torch", python="relative/python; rm") == ()


HOSTILE_LINES = (
    'python -m pip install "torch==2.15.*" evil-package',
    'python -m pip install "torch==2.15; rm -rf ~"',
    "python -m pip install --index-url https://evil.example torch",
    "python -m pip install evil",
    "export LD_PRELOAD=/tmp/x.so",
    "export PATH=/tmp",
    "export NCCL_DEBUG=$(touch x)",
    "sudo nvidia-smi -i 0;reboot -c DEFAULT",
    "sudo nvidia-smi -i GPU-x --gpu-reset",
    "nvidia-smi; reboot",
    "nvidia-smi\nreboot",
    "doctor run --only SMK002 --model evil.py:make",
    "python -c \"import os; os.system('x')\"",
    "rm -rf /",
    HOSTILE,
)


@pytest.mark.parametrize("line", HOSTILE_LINES)
def test_what_is_not_the_doctors_own_line_is_no_action(line: str) -> None:
    assert of(line) == ()


@given(st.text(max_size=60), st.sampled_from(sorted(all_lines())))
def test_inserted_text_never_becomes_a_further_word(text: str, line: str) -> None:
    """Whatever a value in a line is replaced by: no action, or as many words as before."""
    known = of(line)
    for changed in (line + text, text + line, re.sub(r"\d[\d.]*", lambda _: text, line, count=1)):
        for action in of(changed):
            assert len(action.argv) <= max([len(each.argv) for each in known], default=0) + 2
            assert all((word.isprintable() and " " not in word) or word in shlex.split(line)
                       for word in action.argv)  # fmt: skip


def test_a_scripts_fix_is_an_action_for_each_file() -> None:
    edits = (Change(line=1, column=1, end_line=1, end_column=2, text="x"),)
    places = (
        Place(path="-x.py", line=1, edits=edits),
        Place(path="-x.py", line=2, edits=edits),
        Place(path="b.py", line=2),
    )
    check = catalog.find("SCR104")[0]
    found = Finding(check, Verdict(Status.WARN, "it warns", places=places))
    actions = [action for action in actions_of(found) if action.argv[:2] == ("doctor", "lint")]
    (action,) = actions
    assert action.kind == "edit"
    assert action.argv[-4:] == ("--only", "SCR104", "--", "-x.py")


def test_a_machine_at_fault_is_returned() -> None:
    report = judged(machines()["row_remap_failed"])
    (found,) = [f for f in report.findings if f.check.code == "GPU003"]
    assert found.owner is Owner.MACHINE
    assert [action.kind for action in actions_of(found)][-1] == "return"


@pytest.mark.parametrize("fields", [{"ignored": "known"}, {"injected": True}])
def test_nothing_is_done_about_what_is_ignored_or_injected(fields: dict[str, object]) -> None:
    assert of("nvidia-smi", **fields) == ()
    assert PIP  # the beginning of lines that install


def test_a_command_that_the_fix_has_stands_once_where_the_fix_has_it() -> None:
    call, variable = (
        "torch.backends.cuda.enable_cudnn_sdp(False)",
        "TORCH_CUDNN_SDPA_DEPRIORITIZED=1",
    )
    verdict = fail(
        "it fails", call, f"export {variable}", "df -h", fix=f"Call:\n{call}\nor\n{variable}"
    )
    found = Finding(catalog.lookup("NUM003")[0], verdict)
    texts = [text for _, _, text in steps(found, found.fix.split("\n"))]
    assert texts == ["Call:", call, "or", f"export {variable}", "df -h"]
    kinds = [kind for is_command, kind, _ in steps(found, found.fix.split("\n")) if is_command]
    assert kinds == ["edit", "set-env", "look"]
