from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from probe_code import REGISTERED, RUN
from shims import wait_until

from doctor.collect.child import Child, probe_command
from doctor.collect.child_messages import Answer
from doctor.facts.machine import Place

pytestmark = pytest.mark.slow  # starts processes


def ask(path: Path | str, named: str = "assumed") -> Answer:
    command = probe_command(sys.executable, "doctor_side.place", "output", str(path), named)
    child = Child(command)
    try:
        return child.wait(100)
    finally:
        child.kill()


def told(answer: Answer) -> Place:
    """As the parent puts it together: what was noted before a hang counts."""
    facts: dict[str, Any] = {}
    for note in answer.notes:
        facts |= note.get("place", {})
    facts |= (answer.answer or {}).get("place", {})
    facts |= {"role": "output", "path": "x", "looked": answer.ended}
    return msgspec.convert(facts, Place)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=64k", "doctor-test", str(folder)]
    if not mount or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_folder_that_was_not_named_is_not_written_to(tmp_path: Path) -> None:
    before = os.stat(tmp_path).st_mtime_ns
    answer = ask(tmp_path)
    place = told(answer)
    assert place.exists
    assert place.writable
    assert place.wrote is None
    assert place.free is not None
    assert place.total is not None
    assert 0 < place.free <= place.total
    assert place.inodes is not None
    assert [name for name, _ in answer.stages] == ["stat", "realpath", "statvfs", "access"]
    assert os.stat(tmp_path).st_mtime_ns == before
    assert os.listdir(tmp_path) == []


def test_a_named_folder_takes_a_file_which_is_gone_afterwards(tmp_path: Path) -> None:
    answer = ask(tmp_path, "named")
    place = told(answer)
    assert place.wrote is not None
    assert place.wrote.ok
    assert [name for name, _ in answer.stages][-3:] == ["write", "fsync", "delete"]
    assert os.listdir(tmp_path) == []


def test_a_folder_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    place = told(ask(tmp_path / "runs" / "first", "named"))
    assert place.exists is False
    assert place.writable
    assert place.wrote is None
    assert place.free
    assert os.listdir(tmp_path) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_text("precious")
    for path in (tmp_path / "model.bin", tmp_path / "model.bin" / "below"):
        place = told(ask(path, "named"))
        assert place.writable is False
        assert place.wrote is not None
        assert place.wrote.how == "error"
        assert "irectory" in place.wrote.detail or "not a folder" in place.wrote.detail
    assert (tmp_path / "model.bin").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() == 0, reason="permission bits do not bind root")
def test_permission_bits(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    place = told(ask(tmp_path, "named"))
    tmp_path.chmod(0o700)
    assert place.writable is False
    assert place.wrote is not None
    assert place.wrote.how == "error"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs procfs")
def test_the_trial_file_is_believed_and_not_access() -> None:
    """procfs takes no files from anyone; to root access(2) says that it does."""
    place = told(ask("/proc", "named"))
    assert place.filesystem == "proc"
    assert place.wrote is not None
    assert place.wrote.how == "error"
    assert place.free is None, "procfs has no blocks: that is not a full disk"


def test_tmpfs_is_recognised(small: Path) -> None:
    place = told(ask(small, "named"))
    assert place.filesystem == "tmpfs"
    assert place.total == 64 * 1024
    assert place.wrote is not None
    assert place.wrote.ok


def test_the_nearest_mount_above_tells_the_type(small: Path) -> None:
    assert told(ask(small / "a" / "b")).filesystem == "tmpfs"


def test_a_link_is_followed_to_its_mount(small: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(small)
    assert told(ask(tmp_path / "link")).filesystem == "tmpfs"


def test_a_full_disk_is_told_and_left_clean(small: Path) -> None:
    with open(small / "fill", "wb", buffering=0) as file:
        for _ in range(16):
            file.write(b"x" * 4096)
    place = told(ask(small, "named"))
    assert place.free == 0
    assert place.wrote is not None
    assert place.wrote.how == "error"
    assert "No space" in place.wrote.detail
    assert os.listdir(small) == ["fill"], "the trial file is deleted on a full disk too"


def test_a_read_only_mount_binds_root_too(small: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    place = told(ask(small, "named"))
    assert place.writable is False
    assert place.wrote is not None
    assert "ead-only" in place.wrote.detail


def test_no_inodes_left(small: Path) -> None:
    subprocess.run(["mount", "-o", "remount,nr_inodes=3", str(small)], check=True)
    for name in ("a", "b"):
        (small / name).touch()
    place = told(ask(small, "named"))
    assert (place.inodes, place.inodes_free) == (3, 0)
    assert place.wrote is not None
    assert place.wrote.how == "error"


@pytest.mark.parametrize("call", ["statvfs", "stat", "fsync"])
def test_a_call_that_hangs_is_named_and_what_was_known_is_kept(tmp_path: Path, call: str) -> None:
    """A mount whose server is gone cannot be made here: the call itself is made to hang."""
    dead, folder, hanging = tmp_path / "place.py", tmp_path / "output", tmp_path / "hanging"
    folder.mkdir()
    dead.write_text(
        f"""
import os, sys, time
original = os.{call}
def hang(path, *arguments, **keywords):
    if path != {str(folder)!r} and {call != "fsync"}:
        return original(path, *arguments, **keywords)
    open({str(hanging)!r}, "w").close()
    time.sleep(600)
os.{call} = hang
{REGISTERED}{RUN}"""
    )
    command = probe_command(sys.executable, "doctor_side.place", "output", str(folder), "named")
    child = Child([command[0], str(dead), *command[2:]])
    try:
        wait_until(hanging.exists)
        answer = child.wait(0.5)
    finally:
        child.kill()
    place = told(answer)
    assert place.looked.how == "timeout"
    assert call in place.looked.detail
    assert place.filesystem is not None, "the mount's type is known without touching it"
    assert place.wrote is None
