"""Answers of probes become sections, from several threads at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest
import shims
from hypothesis import settings
from recorded import machines

from doctor._util.records import Section, Unknown
from doctor.collect.children import INTERRUPTED, Children, NotStartedError, fit
from doctor.facts.facts import Facts, encode
from doctor.facts.machine import Gpu

FIRST_CONVERSIONS = """
import json, pathlib, sys, threading, time
sys.setswitchinterval(1e-6)
from doctor._util.records import Unknown
from doctor.collect.child_messages import parsed
from doctor.collect.children import INTERRUPTED, Children, NotStartedError, fit
from doctor.facts.interpreter import Cuda
from doctor.facts.machine import Driver, Gpu, Place
from doctor.facts.training import Smoke

delay, facts = float(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text())
sections = (("smoke", Smoke), ("driver", Driver), ("gpus", tuple[Gpu, ...]), ("cuda", Cuda),
            ("places", tuple[Place, ...]))
start = threading.Barrier(4)
failures = []

def convert(number):
    start.wait()
    began = time.perf_counter()
    while time.perf_counter() < began + number * delay:
        pass
    if parsed(b'{"enter": "cuInit", "seconds": 1.5, "note": {"a": 1}}') is None:
        failures.append("message")
    for name, kind in sections:
        if isinstance(fit(facts[name], kind), Unknown):
            failures.append(name)

threads = [threading.Thread(target=convert, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(str(failures) if failures else 0)
"""
STAGGER = 50e-6
"""Seconds between the threads' starts, times 0 to 19: building all types takes about 5 ms."""


@pytest.mark.slow
def test_threads_may_convert_types_for_the_first_time_at_once(tmp_path: Path) -> None:
    """Without the types built beforehand 11 of 60 processes died of SIGSEGV; with them 0 of 300."""
    facts = tmp_path / "facts.json"
    facts.write_bytes(encode(machines()["two_a100"]))
    command = [sys.executable, "-c", FIRST_CONVERSIONS]
    results = [
        subprocess.run(
            [*command, str(number % 20 * STAGGER), str(facts)], capture_output=True, text=True
        )
        for number in range(60 if settings().max_examples >= 100 else 20)
    ]
    assert [(each.returncode, each.stderr) for each in results if each.returncode] == []


def structs(part: Any, known: set[type]) -> set[type]:
    """`known` and every Struct class that a description of a type by msgspec mentions."""
    if isinstance(part, msgspec.inspect.StructType):
        if part.cls in known:  # a type may contain itself
            return known
        known.add(part.cls)
    if isinstance(part, tuple | list):
        for each in part:
            structs(each, known)
    elif isinstance(part, msgspec.inspect.Type | msgspec.inspect.Field):
        for name in part.__struct_fields__:
            structs(getattr(part, name), known)
    return known


def test_every_section_that_a_probe_fills_is_part_of_the_facts() -> None:
    """Only those are built beforehand."""
    built = structs(msgspec.inspect.type_info(Facts), set())
    # made by the doctor itself, or by doctor.fleet, and never converted
    views = {"JobGpu", "JobGpus", "ScriptMachine", "NodeSummary", "NodeProblem"}
    sections = {each for each in Section.__subclasses__() if each.__name__ not in views}
    assert sections <= built


def test_what_does_not_fit_is_unknown() -> None:
    gpus = json.loads(encode(machines()["two_a100"]))["gpus"]
    assert fit(gpus, tuple[Gpu, ...]) == machines()["two_a100"].gpus
    assert isinstance(fit([{**gpus[0], "surprise": 1}], tuple[Gpu, ...]), Unknown)
    assert isinstance(fit(None, Gpu), Unknown)


def test_no_probe_starts_after_an_interrupt() -> None:
    children = Children()
    children.interrupt()
    with pytest.raises(NotStartedError) as error:
        children.start(sys.executable, "doctor_side.nvml")
    assert error.value.ended == INTERRUPTED


INTERRUPTIONS = """
import contextlib, signal, sys, threading
from doctor.collect.children import Children

class Interruption(BaseException):
    pass

def interrupt(number, frame):
    raise Interruption

signal.signal(signal.SIGUSR1, interrupt)
main = threading.main_thread().ident
for delay in range(40):
    children = Children()
    timer = threading.Timer(delay / 4000, signal.pthread_kill, (main, signal.SIGUSR1))
    with contextlib.suppress(Interruption):
        timer.start()
        children.start(sys.argv[1], "nvml")
        timer.join(60)
    children.interrupt()
"""


def test_an_interruption_while_a_child_is_started_leaves_none(tmp_path: Path) -> None:
    """A signal that arrived between the start of a process and its entry once left it behind."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    name = f"DOCTOR_TEST_{uuid.uuid4().hex}"
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERRUPTIONS, program],
        env={**os.environ, name: "1"},
        check=True,
        timeout=300,
    )
    assert shims.left(name) == []
