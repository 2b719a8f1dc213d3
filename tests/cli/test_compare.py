"""`doctor compare` from files to a report: what is named, in which format, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command import doctor
from node_summaries import SHOWN, node_facts
from recorded import machines

from doctor.cli.fleet.node_files import NodeFile, judge, read_nodes
from doctor.facts.facts import encode
from doctor.facts.fleet import NodeSummary, Unread
from doctor.facts.host import Host
from doctor.facts.interpreter import Interpreter
from doctor.facts.launched import Launched
from doctor.facts.machine import Driver, Examination
from doctor.report.formats.table import EXTRACTS, FORMATS


def write(folder: Path, number: int, **sections: Any) -> Path:
    launched = Launched(by="slurm", node=f"gpu-{number:02}", rank=number, nodes=6, job="77")
    facts = node_facts(number, **{"launched": launched, "gpus": machines()[SHOWN].gpus} | sections)
    path = folder / f"{number:02}.json"
    uuid = b"GPU-00000000-0000-4000-8000-000000000000"
    path.write_bytes(encode(facts).replace(uuid, b"GPU-%08d-0000-4000-8000-000000000000" % number))
    return path


def driver(version: str) -> Driver:
    healthy = node_facts(0).driver
    assert isinstance(healthy, Driver)
    return msgspec.structs.replace(healthy, version=version)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five nodes of six; gpu-03 has another driver."""
    path = tmp_path / "facts"
    path.mkdir()
    for number in range(5):
        write(path, number, **({"driver": driver("570.86.10")} if number == 3 else {}))
    return path


@pytest.mark.slow
def test_a_missing_node_and_another_driver_are_named(folder: Path) -> None:
    done = doctor("compare", str(folder), "--nodes-from", "gpu-[00-05]", "--no-config")
    assert done.returncode == 1
    assert "missing: gpu-05" in done.stdout
    assert "4 nodes have 580.95.05, gpu-03 has 570.86.10" in done.stdout
    assert done.stdout.index("FLT001") < done.stdout.index("FLT005") < done.stdout.index("FLT002")


@pytest.mark.slow
def test_the_launchers_number_of_nodes_is_expected(folder: Path) -> None:
    done = doctor("compare", str(folder), "--no-config", "--format", "json")
    fleet = json.loads(done.stdout)["fleet"]
    assert (fleet["expected"], fleet["missing_ranks"]) == (6, [5])


@pytest.mark.slow
@pytest.mark.parametrize("format", [*FORMATS, *EXTRACTS])
def test_every_format(folder: Path, format: str) -> None:
    (folder / "torn.json").write_text('{"schema_version": 3, "jo')
    done = doctor("compare", str(folder), "--format", format, "--no-config", "--expect-nodes", "6")
    assert done.returncode in (1, 2 if format == "nagios" else 1)
    assert "Traceback" not in done.stderr
    if format in FORMATS and format not in ("nagios", "letter", "sarif", "gitlab"):
        assert "gpu-03" in done.stdout


@pytest.mark.slow
def test_names_of_good_and_bad_nodes(folder: Path) -> None:
    healthy = machines()[SHOWN].gpus
    assert isinstance(healthy, tuple)
    bad = tuple(msgspec.structs.replace(gpu, remap_failed=True) for gpu in healthy)
    write(folder, 4, gpus=bad)
    names = ("--nodes-from", "gpu-[00-05]", "--no-config", "--format")
    assert doctor("compare", str(folder), *names, "nodes-bad").stdout.split() == [
        "gpu-05",
        "gpu-04",
    ]
    assert doctor("compare", str(folder), *names, "nodes-good").stdout.split() == [
        f"gpu-0{number}" for number in range(4)
    ]
    text = doctor("compare", str(folder), *names, "console").stdout
    assert 'scontrol update NodeName=gpu-04 State=DRAIN Reason="doctor GPU003"' in text


@pytest.mark.slow
def test_two_files_of_one_machine_are_what_changed_since(tmp_path: Path) -> None:
    for number, (day, version) in enumerate((("02", "580.95.05"), ("09", "570.86.10"))):
        examination = Examination(started=f"2026-10-{day}T00:00:00Z")
        path = write(tmp_path, 1, driver=driver(version), examination=examination)
        path.rename(tmp_path / f"{number}-{day}.json")
    done = doctor("compare", str(tmp_path), "--no-config")
    assert "driver: 580.95.05 before, 570.86.10 now" in done.stdout
    assert "FLT013" in done.stdout


@pytest.mark.slow
def test_packages_that_differ_are_named(folder: Path) -> None:
    healthy = node_facts(0).interpreter
    assert isinstance(healthy, Interpreter)
    for number in range(5):
        version = "2.1.0" if number == 2 else "2.0.0"
        installed = (*(f"package-{each}==1.0" for each in range(99)), f"numpy=={version}")
        write(folder, number, interpreter=msgspec.structs.replace(healthy, installed=installed))
    done = doctor("compare", str(folder), "--no-config")
    assert "numpy==2.1.0" in done.stdout


@pytest.mark.slow
def test_a_comparison_is_saved_and_judged_again(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "fleet.json"
    first = doctor("compare", str(folder), "--no-config", "--save-facts", str(saved))
    again = doctor("report", str(saved), "--no-config")
    assert again.returncode == first.returncode
    assert "gpu-03 has 570.86.10" in again.stdout


@pytest.mark.slow
def test_redacted_reports_have_pseudonyms(folder: Path) -> None:
    for format in ("console", "json", "html", "nodes-bad", "prometheus"):
        done = doctor(
            "compare", str(folder), "--redact", "--format", format, "--no-config",
            "--nodes-from", "gpu-[00-05]",
        )  # fmt: skip
        assert "gpu-0" not in done.stdout, format
        assert format == "prometheus" or "node-0" in done.stdout


@pytest.mark.slow
def test_values_of_variables_are_not_printed(folder: Path) -> None:
    healthy = node_facts(0).host
    assert isinstance(healthy, Host)
    host = msgspec.structs.replace(
        healthy, name="gpu-01", env={"NCCL_SOCKET_IFNAME": "internal-net0", "NCCL_DEBUG": "INFO"}
    )
    write(folder, 1, host=host)
    for format in ("console", "json", "html"):
        done = doctor("compare", str(folder), "--format", format, "--no-config")
        assert "NCCL_SOCKET_IFNAME" in done.stdout
        assert "internal-net0" not in done.stdout, format
    assert "internal-net0" in doctor("compare", str(folder), "--no-redact", "--no-config").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "No such file"),
        (("{empty}",), "no facts file"),
        (("{folder}", "--nodes-from", "gpu-[1-"), "not a list of nodes"),
        (("{folder}", "--expect-nodes", "3", "--nodes-from", "a,b"), "omit one of them"),
        (("{folder}", "--expect-nodes", "0"), "--expect-nodes"),
        (("{folder}", "--topology", "nowhere"), "No such file"),
        (("{folder}", "--ledger", "nowhere"), "does not exist"),
        (("{folder}", "--save-facts", "{empty}/%j.json"), "%j"),
    ],
)
def test_usage_errors(
    folder: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    words = [each.format(folder=folder, empty=tmp_path / "empty") for each in arguments]
    key = {"DOCTOR_LEDGER_KEY_FILE": str(tmp_path / "key")}
    done = doctor("compare", *words, "--no-config", env=environment(key))
    assert (done.returncode, message in done.stderr, done.stderr.count("\n")) == (2, True, 1)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("SLURM_", "OMPI_"))}
    return kept | dict(more)


@pytest.mark.slow
def test_a_facts_file_is_named_by_host_rank_and_job(tmp_path: Path) -> None:
    variables = environment(
        {"SLURM_JOB_ID": "77", "SLURM_NODEID": "3", "SLURMD_NODENAME": "n/3", "SLURM_NNODES": "4"}
    )
    pattern = str(tmp_path / "%j-%n-%h-%%.json")
    doctor(
        "run", "--quick", "--no-smoke", "--device", "cpu", "--no-config", "--only", "MEM",
        "--save-facts", pattern, env=variables,
    )  # fmt: skip
    (file,) = tmp_path.iterdir()
    assert file.name == "77-3-n_3-%.json"
    launched = json.loads(file.read_text())["launched"]
    assert (launched["by"], launched["rank"], launched["nodes"]) == ("slurm", 3, 4)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"schema_version": 3}',
        b'{"schema_version": 99}',
        b"{}" * 1000,
    ],
)
def test_what_is_no_facts_file_is_unread_and_the_others_are_read(folder: Path, data: bytes) -> None:
    (folder / "bad.json").write_bytes(data)
    read = read_nodes([NodeFile(str(path), path.name) for path in sorted(folder.iterdir())])
    assert [type(each) for each in read] == [NodeSummary] * 5 + [Unread]
    assert isinstance(read[-1], Unread)
    assert "\n" not in read[-1].reason


def test_a_name_with_control_characters_is_unread(folder: Path) -> None:
    launched = Launched(by="slurm", node="gpu\x1b[2J\n- all is well")
    read = read_nodes([NodeFile(str(write(folder, 9, launched=launched)), "9.json")])
    assert isinstance(read[0], Unread)


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.json")
    (read,) = read_nodes([NodeFile(str(folder / "pipe.json"), "pipe.json")])
    assert isinstance(read, Unread)


def test_many_files_are_read_by_several_processes_alike(tmp_path: Path) -> None:
    paths = [write(tmp_path, number) for number in range(40)]
    files = [NodeFile(str(path), path.name) for path in paths]
    assert read_nodes(files) == [each for file in files for each in read_nodes([file])]


def test_facts_that_names_alone_distinguish_are_judged_once(folder: Path) -> None:
    from doctor.cli.fleet.node_files import _judge_once

    _judge_once.cache_clear()
    first = node_facts(1).with_(gpus=node_facts(0).gpus)
    second = node_facts(2).with_(gpus=node_facts(0).gpus)
    assert judge(first) == judge(second)
    assert _judge_once.cache_info().misses == 1
