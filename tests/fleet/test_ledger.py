"""The ledger: writers that are killed, torn files, tombstones, compaction, pseudonyms."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import command
import pytest
from every_command import validated
from node_summaries import summary

from doctor import catalog
from doctor._util.errors import UserError
from doctor.cli import ledger as commands
from doctor.facts.fleet import NodeProblem, NodeSummary
from doctor.fleet import ledger
from doctor.fleet.compare import compare, fleet_facts
from doctor.fleet.ledger import Pseudonyms, Record, Sighting
from doctor.judge.engine import examine

FAILED = (NodeProblem(code="GPU003", status="fail"),)


@pytest.fixture(autouse=True)
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "outside" / "key"
    monkeypatch.setenv("DOCTOR_LEDGER_KEY_FILE", str(path))
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "ledger"
    path.mkdir()
    return path


def node(number: int, day: int, **fields: object) -> NodeSummary:
    return summary(number, started=f"2026-10-{day:02}T00:00:00Z", **fields)


def seen(directory: Path, *nodes: NodeSummary) -> tuple[str, ...]:
    """What the ledger has on these nodes, which it then keeps."""
    fleet, notes = commands.with_ledger(compare(nodes), nodes, directory)
    assert fleet.known is not None
    return (*(f"{each.node} {each.day} {','.join(each.codes)}" for each in fleet.known), *notes)


def test_a_gpu_that_failed_is_known_under_another_host_name(directory: Path) -> None:
    assert seen(directory, node(1, 2, problems=FAILED, outcome="return"), node(2, 2)) == ()
    moved = node(1, 9, node="other-17", host="other-17")
    assert seen(directory, moved) == ("other-17 2026-10-02 GPU003",)
    fleet, _ = commands.with_ledger(compare([moved]), [moved], directory)
    assert fleet.known is not None
    assert fleet.known[0].returned
    assert fleet.known[0].earlier_node


def test_the_same_facts_again_are_no_earlier_failure(directory: Path) -> None:
    failed = node(1, 2, problems=FAILED)
    assert seen(directory, failed) == ()
    assert seen(directory, failed) == ()


def test_a_failure_of_the_environment_is_no_matter_of_the_machine(directory: Path) -> None:
    seen(directory, node(1, 2, problems=(NodeProblem(code="MEM003", status="fail"),)))
    assert seen(directory, node(1, 3)) == ()


def test_rates_of_the_same_gpus_are_compared(directory: Path) -> None:
    first = node(1, 2, rates={"matmul bf16": (1e15,)})
    second = node(1, 3, node="elsewhere", host="elsewhere", rates={"matmul bf16": (8e14,)})
    seen(directory, first)
    fleet, _ = commands.with_ledger(compare([second]), [second], directory)
    (changed,) = fleet.changed
    assert (changed.before, changed.now, changed.since) == (1e15, 8e14, "2026-10-02")


def test_a_machine_is_forgotten_until_it_fails_again(directory: Path) -> None:
    seen(directory, node(1, 2, problems=FAILED))
    (shown,) = commands.show(directory, "GPU-1").machines
    assert [each.failures for each in shown.sightings] == [("GPU003",)]
    commands.forget(directory, "GPU-1")
    commands.forget(directory, "gpu-01")
    assert seen(directory, node(1, 3)) == ()
    with pytest.raises(UserError, match="GPU-77"):
        commands.forget(directory, "GPU-77")


HOSTILE = f"no\x1b[31m\nREADY: forged\u202e token={'hf_' + 'Q7w9' * 9}"


@pytest.mark.parametrize("text", ["x", HOSTILE])
@pytest.mark.parametrize("words", [("list",), ("list", "-q"), ("show", "gpu-"), ("forget", "gpu-")])
def test_the_commands_print_every_form(
    words: tuple[str, ...], text: str, directory: Path, tmp_path: Path
) -> None:
    bad = {"key": f"gpu-{text}", "node": text, "codes": (text,), "outcome": "return"}
    good = {"key": "gpu-good", "outcome": "ready"}
    sightings = tuple(
        Sighting(kind="gpu", time="2026-10-02T00:00:00Z", **each) for each in (bad, good)
    )
    (directory / f"torn{ledger.SUFFIX}").write_bytes(b"{")
    ledger.write(directory, Record(key_id="k", sightings=sightings))
    action, *flags = (f"{word}{text}" if word == "gpu-" else word for word in words)
    outputs = [f"--output={form}={tmp_path / form}" for form in ("plain", "json", "jsonl")]
    done = command.doctor("ledger", action, str(directory), *flags, *outputs)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (tmp_path / "plain").read_text()
    document = validated(json.loads((tmp_path / "json").read_text()))
    assert len(document["machines"]) == (2 if words == ("list",) else 1)
    assert len(document["unread"]) == 1
    lines = [validated(json.loads(line)) for line in (tmp_path / "jsonl").read_text().splitlines()]
    assert [line["machine"] for line in lines[:-1]] == [
        each["machine"] for each in document["machines"]
    ]
    assert lines[-1]["unread"] == document["unread"]
    for path in tmp_path.glob("*"):
        if path.is_file():
            assert not {"\x1b", "\u202e"} & set(path.read_text())
            assert "Q7w9" not in path.read_text()
            assert "\nREADY" not in path.read_text()


def test_a_ledger_without_machines_is_said_in_every_form(directory: Path) -> None:
    for form in ("console", "plain", "json", "jsonl"):
        done = command.doctor("ledger", "list", str(directory), "--format", form)
        assert done.returncode == 0
        if form.startswith("json"):
            assert validated(json.loads(done.stdout))["machines"] == []
        else:
            assert done.stdout == "no GPU and no host to list\n"


def test_names_and_uuids_are_not_in_the_files_and_the_key_lies_elsewhere(
    directory: Path, key: Path
) -> None:
    seen(directory, node(1, 2, problems=FAILED))
    text = b"".join(path.read_bytes() for path in directory.iterdir())
    assert b"gpu-01" not in text
    assert b"GPU-1" not in text
    assert key.stat().st_mode & 0o077 == 0
    key.unlink()
    with pytest.raises(UserError, match="another key"):
        seen(directory, node(1, 3))


def test_a_key_in_the_ledger_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCTOR_LEDGER_KEY_FILE", str(directory / "key"))
    with pytest.raises(UserError, match="must not lie in"):
        seen(directory, node(1, 2))


@pytest.mark.parametrize("data", [b"", b'{"type": "Rec', b"\xff\xfe", b"[]", b"{}" * 10])
def test_a_torn_file_is_named_and_hides_no_other(directory: Path, data: bytes) -> None:
    seen(directory, node(1, 2, problems=FAILED))
    (directory / f"torn{ledger.SUFFIX}").write_bytes(data)
    (directory / f"link{ledger.SUFFIX}").symlink_to("/etc/passwd")
    known, *notes = seen(directory, node(1, 3))
    assert known == "gpu-01 2026-10-02 GPU003"
    assert len(notes) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_that_cannot_be_written_is_a_note(directory: Path) -> None:
    directory.chmod(0o500)
    (note,) = seen(directory, node(1, 2))
    assert "not written" in note


def test_a_ledger_that_cannot_be_asked_leaves_a_live_fleet_unknown(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [node(1, 2), node(2, 2)]

    def asked(where: Path, seconds: float = 60.0) -> tuple[str, str]:
        fleet, _ = commands.with_ledger_within(seconds, compare(nodes), nodes, where)
        judged = next(each for each in examine(catalog.lookup("FLT014"), fleet_facts(fleet)))
        return str(judged.status), judged.verdict.summary

    assert asked(directory)[0] == "pass"
    assert asked(directory / "absent")[0] == "unknown"
    release = threading.Event()
    monkeypatch.setattr(commands, "with_ledger", lambda *_, **__: release.wait(60))
    status, summary_ = asked(directory, seconds=0.1)
    release.set()
    assert status == "unknown"
    assert "did not answer" in summary_


def test_a_directory_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        seen(tmp_path / "nowhere", node(1, 2))


def record(number: int) -> Record:
    names = Pseudonyms(b"k" * 32)
    sighting = Sighting(
        kind="gpu",
        key=names.of("gpu", f"GPU-{number % 7}"),
        time=f"2026-10-{number % 28 + 1:02}T00:00:00Z",
        codes=("GPU003",) if number % 5 == 0 else (),
    )
    return Record(key_id=names.key_id, sightings=(sighting,))


def test_a_compaction_changes_no_answer(directory: Path) -> None:
    for number in range(ledger.COMPACT + 3):
        ledger.write(directory, record(number))
    ledger.write(
        directory, Record(key_id=record(0).key_id, forgotten={"x": "2026-10-03T00:00:00Z"})
    )
    before = ledger.read(directory)
    assert ledger.compact(directory, record(0).key_id)
    after = ledger.read(directory)
    assert len(after.files) == 1
    assert after.forgotten == before.forgotten
    for key, found in before.sightings.items():
        assert after.sightings[key][-1] == found[-1]
        failed = [each for each in found if each.codes]
        assert [each for each in after.sightings[key] if each.codes] == failed
    assert not (directory / ledger.LOCK).exists()


def test_one_writer_compacts_at_a_time(directory: Path) -> None:
    for number in range(ledger.COMPACT):
        ledger.write(directory, record(number))
    (directory / ledger.LOCK).touch()
    assert not ledger.compact(directory, record(0).key_id)
    os.utime(directory / ledger.LOCK, (0, 0))  # its writer died long ago
    assert ledger.compact(directory, record(0).key_id)


@pytest.mark.slow
def test_eight_writers_of_which_some_are_killed_tear_nothing(directory: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from doctor.fleet import ledger\n"
        "from doctor.fleet.ledger import Record, Sighting\n"
        "d = Path(sys.argv[1]); print('ready', flush=True)\n"
        "for n in range(10**9):\n"
        "    s = Sighting(kind='gpu', key=f'{sys.argv[2]}-{n}', time='2026-10-02T00:00:00Z',\n"
        "                 codes=('GPU003',))\n"
        "    ledger.write(d, Record(key_id='k', sightings=(s,)))\n"
        "    ledger.compact(d, 'k')\n"
        "    print(n, flush=True)\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(directory), str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    written: dict[int, int] = {}
    try:
        for number, writer in enumerate(writers):
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            for _ in range(12):
                written[number] = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)  # amid a write or a compaction
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            assert writer.stdout is not None
            writer.stdout.close()
    if (lock := directory / ledger.LOCK).exists():
        os.utime(lock, (time.time() - 2 * ledger.STALE,) * 2)
    for _ in range(2):  # nothing that was written is lost, before and after a compaction
        content = ledger.read(directory)
        assert content.unread == ()
        for number, last in written.items():
            assert all(f"{number}-{n}" in content.sightings for n in range(last + 1))
        ledger.compact(directory, "k")
