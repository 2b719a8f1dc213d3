"""Facts files of real machines: they are judged, hold no names, and stay as they were judged."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from command import doctor
from paths import MACHINES
from recorded import machines

from doctor import catalog
from doctor.facts.facts import Facts, decode, encode
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda
from doctor.facts.machine import Driver
from doctor.judge.check import Status
from doctor.judge.engine import examine
from doctor.report.names import this_machine
from doctor.report.redaction import pseudonymous

NOBODY = Host(system="")
FILES = sorted([*MACHINES.glob("captured/*.json"), *MACHINES.glob("contributed/*.json")])
FACTS = machines()


def outcomes(facts: Facts) -> list[tuple[str, Status, tuple[str, ...]]]:
    findings = examine(catalog.MACHINE_CHECKS, facts)
    return [(each.check.code, each.status, each.verdict.commands) for each in findings]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_contributed_machine_is_judged(path: Path) -> None:
    facts = decode(path.read_bytes())
    findings = examine(catalog.MACHINE_CHECKS, facts)
    assert not [f for f in findings if "the check itself" in f.verdict.summary]
    assert sum(f.status is Status.PASS for f in findings) > 5


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_contributed_machine_holds_no_names(path: Path) -> None:
    text = path.read_text("utf-8")
    assert re.fullmatch(r"[a-z0-9]+_torch\d+\.\d+", path.stem)
    assert not re.search(r"/home/(?!\[user\])|/Users/(?!\[user\])", text)
    if path.parent.name == "captured":  # by hand, with invented UUIDs
        return
    uuids = set(re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text))
    assert all(uuid.startswith("00000000-0000-0000-0000-") for uuid in uuids)


@pytest.mark.parametrize("name", FACTS)
def test_pseudonyms_change_no_verdict(name: str) -> None:
    facts = FACTS[name]
    assert isinstance(facts.host, Host) or facts.host
    changed = decode(encode(pseudonymous(facts, NOBODY)))
    assert [each[:2] for each in outcomes(changed)] == [each[:2] for each in outcomes(facts)]


@pytest.mark.slow
def test_the_command_writes_pseudonyms(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    flags = ("--no-smoke", "--device", "cpu", "--no-config", "--fail-on", "never")
    done = doctor("run", *flags, "--save-facts", path, "--redact", cwd=tmp_path)
    assert done.returncode in (0, 3), done.stderr
    facts = decode(path.read_bytes())
    assert facts.holds.startswith("pseudonyms")
    assert facts == pseudonymous(facts, this_machine())
    assert path.stat().st_mode & 0o777 == 0o600


def named() -> Facts:
    """A machine with names wherever a machine has them."""
    facts = FACTS["h200_torch2.11"]
    assert isinstance(facts.host, Host)
    assert isinstance(facts.gpus, tuple)
    assert isinstance(facts.cuda, Cuda)
    host = msgspec.structs.replace(
        facts.host,
        name="zeppelin.corp.example",
        user="margarete",
        home="/home/margarete",
        env={"LD_LIBRARY_PATH": "/home/margarete/lib:/home/other/lib", "NCCL_DEBUG": "WARN"},
    )
    uuid = "GPU-1a2b3c4d-1111-2222-3333-444455556666"
    gpus = (msgspec.structs.replace(facts.gpus[0], uuid=uuid), *facts.gpus[1:])
    seen = (msgspec.structs.replace(facts.cuda.gpus[0], uuid=uuid[4:]), *facts.cuda.gpus[1:])
    return facts.with_(host=host, gpus=gpus, cuda=msgspec.structs.replace(facts.cuda, gpus=seen))


def test_names_become_pseudonyms_and_what_is_judged_stays() -> None:
    changed = pseudonymous(named(), NOBODY)
    text = encode(changed).decode()
    for name in ("zeppelin", "corp.example", "margarete", "/home/other", "1a2b3c4d"):
        assert name not in text
    assert isinstance(changed.host, Host)
    assert changed.host.env == {
        "LD_LIBRARY_PATH": "/home/[user]/lib:/home/[user]/lib",
        "NCCL_DEBUG": "WARN",
    }
    assert isinstance(changed.driver, Driver)
    assert isinstance(changed.gpus, tuple)
    assert isinstance(changed.cuda, Cuda)
    assert changed.gpus[0].uuid == f"GPU-{changed.cuda.gpus[0].uuid}"
    assert outcomes(changed) == outcomes(pseudonymous(changed, NOBODY))
    assert [each[:2] for each in outcomes(changed)] == [each[:2] for each in outcomes(named())]
