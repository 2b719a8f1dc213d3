"""What the processes of a `--hf` run do while another one works: they import, and then wait."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import command
import preloaded
import pytest
import shims
from probe_code import REGISTERED, RUN

from doctor._util.records import Ended, Unknown
from doctor.collect.ahead import start_ahead
from doctor.collect.children import Children
from doctor.collect.collect import collect
from doctor.facts.facts import Facts, decode
from doctor.facts.load import Attention
from doctor.facts.machine import Driver
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Smoke
from doctor.job.expect import Expect
from doctor.job.job import Job
from doctor.job.run_options import RunOptions

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 32,
    "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "vocab_size": 64, "max_position_embeddings": 128,
}  # fmt: skip
PRELUDE = """
import json, os, signal, time
EVENTS = {events!r}

def importers():
    with open(EVENTS) as file:
        events = list(map(json.loads, file))
    return {{pid for pid, what, name in events if (what, name) == ("left", "import transformers")}}

def entered(stage):
    pass

def hooked(**message):
    send(**message)
    for what in {{"enter", "left"}} & set(message):
        with open(EVENTS, "ab", buffering=0) as file:
            line = json.dumps([os.getpid(), what, message[what]])
            file.write(line.encode() + b"\\n")
    entered(message.get("enter"))

send, wire.send = wire.send, hooked
{code}
"""
IMPORTS = ("import torch", "import transformers")
WAIT = """
def entered(stage):
    deadline = time.monotonic() + 60
    while stage == "forward" and len(importers()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
"""
CRASH = """
def entered(stage):
    if stage == "import transformers":
        os.kill(os.getpid(), signal.SIGSEGV)
"""
HANG = """
def entered(stage):
    if stage == "import transformers":
        time.sleep(600)
"""
RESPONDS = Driver(nvml=Ended(how="ok"), cuda=Ended(how="ok"))
HANGS = Driver(nvml=Ended(how="ok"), cuda=Ended(how="timeout"))


class Machine(NamedTuple):
    """A directory with a model and an interpreter, and what its processes wrote."""

    directory: Path
    written: Path

    @property
    def events(self) -> list[tuple[int, str, str]]:
        """Process, "enter" or "left", stage."""
        return [(*json.loads(line),) for line in self.written.read_text().splitlines()]

    @property
    def facts(self) -> Facts:
        return decode((self.directory / "facts.json").read_bytes())

    @property
    def line(self) -> tuple[str, ...]:
        """The arguments of `doctor`."""
        python = str(self.directory / "python")
        line = ("run", "--no-config", "--device", "cpu", "--quick", "--hf", "model")
        return (*line, "--python", python, "--save-facts", "facts.json")


@pytest.fixture
def env() -> Iterator[dict[str, str]]:
    """An environment whose processes can be found again; none may be left."""
    name = f"DOCTOR_TEST_{uuid.uuid4().hex}"
    yield {**os.environ, name: "1"}
    assert shims.left(name) == []


def machine(directory: Path, code: str) -> Machine:
    """One whose probes write the stages they enter and leave; `code` may define `entered`."""
    (directory / "model").mkdir()
    (directory / "model" / "config.json").write_text(json.dumps(CONFIG))
    written = directory / "events"
    written.touch()
    head = "import sys\nsys.argv = sys.argv[1:]\n" + REGISTERED
    prelude = head + PRELUDE.format(events=str(written), code=code) + RUN
    (directory / "prelude.py").write_text(prelude)
    program = directory / "python"
    start = f'exec {preloaded.python(preloaded.TRAINER)} {directory}/prelude.py "$@"'
    program.write_text(f"#!/bin/sh\n{start}\n")
    program.chmod(0o755)
    return Machine(directory, written)


@pytest.mark.slow
def test_all_import_before_one_trains_and_one_works_at_a_time(
    tmp_path: Path, env: dict[str, str]
) -> None:
    """The small training waits until two other processes have imported transformers, which they
    never do if they are started after it."""
    here = machine(tmp_path, WAIT)
    done = command.doctor(*here.line, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    facts = here.facts
    assert isinstance(facts.attention, Attention)
    assert [each.name for each in facts.attention.implementations] == ["eager", "sdpa"]
    assert isinstance(facts.own, OwnModel)
    assert facts.own.smoke
    assert facts.own.smoke.completed
    work = [pid for pid, _, stage in here.events if stage not in IMPORTS]
    first, trial, own = (pid for pid, _ in groupby(work))
    assert len({first, trial, own}) == 3
    stages = {pid: {stage for each, _, stage in here.events if each == pid} for pid in work}
    assert "eager in fp32" in stages[trial]
    assert "read config.json" in stages[own]


@pytest.mark.slow
def test_a_crash_ahead_is_reported_by_the_stages_that_it_prevents(
    tmp_path: Path, env: dict[str, str]
) -> None:
    here = machine(tmp_path, CRASH)
    command.doctor(*here.line, cwd=tmp_path, env=env)
    facts = here.facts
    assert isinstance(facts.smoke, Smoke)
    assert facts.smoke.completed
    assert isinstance(facts.attention, Attention)
    assert facts.attention.trials
    (implementation,) = facts.attention.implementations
    assert isinstance(facts.own, OwnModel)
    for ended in (implementation.ended, facts.own.built):
        assert (ended.how, ended.detail) == ("signal", "SIGSEGV inside import transformers")


@pytest.mark.slow
def test_a_hang_ahead_ends_with_the_budget(
    tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(tmp_path, HANG)
    for variable in env.keys() - os.environ.keys():
        monkeypatch.setenv(variable, env[variable])
    job = Job(device="cpu", hf=str(tmp_path / "model"), python=str(tmp_path / "python"))
    options = RunOptions(quick=True, budget=3.0, omitted=("attention",))
    facts = collect(job, options, Expect(), lambda stage: None)
    assert isinstance(facts.own, Unknown)
    assert "cut off by --budget" in facts.own.reason


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_signal_ends_those_that_import(
    number: signal.Signals, code: int, tmp_path: Path, env: dict[str, str]
) -> None:
    here = machine(tmp_path, HANG)
    line = [sys.executable, "-P", "-m", "doctor", *here.line]
    process = subprocess.Popen(line, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL)
    shims.wait_until(lambda: [stage for _, _, stage in here.events].count(IMPORTS[1]) == 2)
    process.send_signal(number)
    assert process.wait(60) == code


@pytest.mark.parametrize(
    ("job", "options", "driver", "started"),
    [
        (Job(device="cpu"), RunOptions(), None, (False, False)),
        (Job(device="cpu", hf="m"), RunOptions(), None, (True, True)),
        (Job(device="cuda", hf="m"), RunOptions(), RESPONDS, (True, True)),
        (Job(device="cuda", hf="m"), RunOptions(), HANGS, (False, False)),
        (Job(device="cuda", hf="m"), RunOptions(), Unknown(reason="cut off"), (False, False)),
        (Job(device="cpu", hf="m"), RunOptions(smoke=False), None, (False, False)),
        (Job(device="cpu", hf="m"), RunOptions(omitted=("attention",)), None, (True, False)),
        (Job(device="cpu", model="m.py:make"), RunOptions(), None, (True, False)),
    ],
)
def test_only_what_the_job_needs_is_started(
    job: Job, options: RunOptions, driver: Driver | Unknown | None, started: tuple[bool, bool]
) -> None:
    children = Children()
    ahead = start_ahead(children, "/bin/true", job, options, driver)
    ahead.end()
    assert (ahead.own is not None, ahead.implementations is not None) == started
