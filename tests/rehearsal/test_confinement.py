"""A confined command changes nothing outside, reaches no network and leaves no process."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from doctor._util.errors import UserError
from doctor.collect.rehearsal import landlock, on_disk, places
from doctor.collect.rehearsal.launchers import refuse_launchers

pytestmark = pytest.mark.skipif(not landlock.version(), reason="the kernel has no Landlock")

DANGEROUS = {
    "redirection": "echo lost > {real}/weights.pt",
    "rm": "rm -r {real}",
    "rename": "mv {real} {real}-old",
    "rename into": "mv {output}/x {real}/weights.pt",
    "truncate": "truncate -s 0 {real}/weights.pt",
    "link": "ln -f {real}/weights.pt {output}/link && echo lost > {output}/link",
    "symbolic link": "ln -s {real} {output}/link; echo lost > {output}/link/weights.pt",
    "new file": "touch {real}/checkpoint-999",
    "permissions": "chmod 000 {real}/weights.pt; touch -d 2001-01-01 {real}/weights.pt",
    "C": "dd if=/dev/zero of={real}/weights.pt count=1",
    "python": "{python} -c \"open('{real}/weights.pt', 'w')\"",
    "python, without hooks": "{python} -ISc \"import shutil; shutil.rmtree('{real}')\"",
    "child of a child": "sh -c \"setsid sh -c 'rm -r {real}'\"",
}


def tree(directory: Path) -> dict[str, tuple[int, int, str]]:
    """Mode, time and content of everything below."""
    return {
        str(path.relative_to(directory)): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(directory.rglob("*"))
    }


SUPERVISOR = ("-m", "doctor.collect.rehearsal.supervisor")
UNABLE_TO_KILL = """
import os
from doctor.collect.rehearsal import supervisor
supervisor.KILL_SECONDS = 0.2
os.kill = lambda pid, number: None  # as for a process that waits in a driver
supervisor.main()
"""


class Confined:
    """A command under the supervisor."""

    def __init__(
        self, directory: Path, line: str, supervisor: tuple[str, ...] = SUPERVISOR
    ) -> None:
        self.real, self.output = directory / "real", directory / "output"
        self.real.mkdir()
        self.output.mkdir()
        (self.real / "weights.pt").write_bytes(b"weights of a week")
        (self.output / "x").write_text("x")
        words = {"real": self.real, "output": self.output, "python": sys.executable}
        spec: dict[str, Any] = {
            "command": ["sh", "-c", line.format(**words)], "environment": dict(os.environ),
            "directory": str(directory), "output": str(self.output / "log"),
            "writable": [str(self.output)], "devices": ["/dev/null"], "files": True,
            "network": False,
        }  # fmt: skip
        path = directory / "spec.json"
        path.write_text(json.dumps(spec))
        with path.open() as file:
            self.process = subprocess.Popen(
                [sys.executable, "-P", *supervisor, str(file.fileno())],
                pass_fds=(file.fileno(),), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True, start_new_session=True,
            )  # fmt: skip

    def finish(self) -> list[dict[str, Any]]:
        """Its events, once everything has ended."""
        assert self.process.stdout is not None
        events = [json.loads(line) for line in self.process.stdout]
        self.close()
        return events

    def event(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return dict(json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("line", DANGEROUS.values(), ids=DANGEROUS)
def test_nothing_outside_changes(line: str, tmp_path: Path) -> None:
    confined = Confined(tmp_path, line)
    before = tree(confined.real)
    events = confined.finish()
    assert [event["event"] for event in events] == ["started", "ended", "done"]
    if not events[0]["mounts"] and "chmod" in line:
        pytest.skip("this system has no user namespaces, and Landlock has no rule for chmod")
    assert tree(confined.real) == before


@pytest.mark.slow
def test_output_temporary_files_and_devices_are_writable(tmp_path: Path) -> None:
    confined = Confined(
        tmp_path, "mkdir {output}/a && mv {output}/x {output}/a/ && echo > /dev/null"
    )
    assert confined.finish()[1]["code"] == 0
    assert (confined.output / "a" / "x").exists()


@pytest.mark.slow
def test_the_network_has_no_route(tmp_path: Path) -> None:
    line = (
        "{python} -c \"import socket; s = socket.create_server(('127.0.0.1', 0)); "
        "socket.create_connection(s.getsockname()); print('loopback'); "
        "socket.create_connection(('192.0.2.1', 443), 5)\""
    )
    confined = Confined(tmp_path, line)
    events = confined.finish()
    if events[0]["network"] == "open":
        pytest.skip(f"no namespace: {events[0]['why']}")
    log = (confined.output / "log").read_text()
    assert "loopback" in log
    assert "Network is unreachable" in log


LEAVING = {
    "background": "sleep 600 &",
    "session": "setsid sleep 600 &",
    "double fork": "(setsid sh -c 'sleep 600 &' &) ; sleep 0.2",
    "deaf to SIGTERM": "trap '' TERM HUP; (trap '' TERM HUP; sleep 600) & sleep 0.2",
}


@pytest.mark.slow
@pytest.mark.parametrize("line", LEAVING.values(), ids=LEAVING)
def test_no_process_is_left_after_the_command(line: str, tmp_path: Path) -> None:
    confined = Confined(tmp_path, line + " echo $$ > /dev/null")
    events = confined.finish()
    assert events[-1]["left"] == ["sleep"]
    assert events[-1]["stuck"] == []
    assert marked(confined.output) == []


@pytest.mark.slow
def test_no_process_is_left_when_the_doctor_dies(tmp_path: Path) -> None:
    """Its end of the pipe is closed, whatever killed it."""
    confined = Confined(tmp_path, "setsid sleep 600 & trap '' TERM; sleep 600; sleep 600")
    assert confined.event()["event"] == "started"
    confined.close()
    assert marked(confined.output) == []


@pytest.mark.slow
def test_no_process_is_left_when_the_command_is_killed(tmp_path: Path) -> None:
    confined = Confined(tmp_path, "setsid sleep 600 & kill -9 $$; sleep 600")
    assert confined.finish()[1]["code"] == -signal.SIGKILL
    assert marked(confined.output) == []


@pytest.mark.slow
def test_a_command_that_cannot_be_killed_is_reported(tmp_path: Path) -> None:
    confined = Confined(tmp_path, "exec sleep 600", ("-c", UNABLE_TO_KILL))
    assert confined.event()["event"] == "started"
    assert confined.process.stdin is not None
    confined.process.stdin.write("kill\n")
    confined.process.stdin.flush()
    (done,) = confined.finish()
    assert done["stuck"] == ["sleep"]


def marked(output: Path) -> list[str]:
    """Processes whose log is this one."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and os.readlink(entry / "fd" / "1") == str(output / "log"):
                found.append((entry / "comm").read_text())
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_a_signal_reaches_the_command(tmp_path: Path) -> None:
    confined = Confined(
        tmp_path, "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.1; done"
    )
    confined.event()
    log = confined.output / "log"
    deadline = time.monotonic() + 60
    while "ready" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert confined.process.stdin is not None
    confined.process.stdin.write(f"signal {int(signal.SIGTERM)}\n")
    confined.process.stdin.flush()
    assert confined.finish()[0]["code"] == 7


def test_a_run_is_recognized_in_the_directory_above_it_and_beside_it(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "llama"
    (run / "checkpoint-200").mkdir(parents=True)
    (tmp_path / "runs" / "notes").mkdir()
    assert places.find_run(run)
    assert places.find_run(run / "checkpoint-200" / "deeper")
    assert places.find_run(tmp_path / "runs" / "rehearsal")
    assert not places.find_run(tmp_path / "elsewhere" / "rehearsal")


def test_a_downloaded_model_in_the_working_directory_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "yolo.pt").write_text("")
    (tmp_path / "step_1_preprocess.py").write_text("")
    assert not places.find_run(Path("doctor-rehearsal"))
    (tmp_path / "checkpoint-10").mkdir()
    assert places.find_run(Path("doctor-rehearsal"))


def test_a_rehearsal_in_the_users_directory_does_not_hide_runs_there(tmp_path: Path) -> None:
    existing = tmp_path / "runs"
    existing.mkdir()
    workplace = places.make_workplace(existing)
    inside = workplace.output("run") / "checkpoint-10"
    inside.mkdir(parents=True)
    assert not (existing / places.MARKER).exists()
    assert not places.find_run(existing)
    assert not places.holds_run(str(inside))
    (existing / "checkpoint-200").mkdir()
    (inside.parent / "link").symlink_to(existing)
    assert places.find_run(existing)
    assert places.holds_run(str(existing / "a.pt"))
    assert places.holds_run(str(inside.parent / "link"))
    workplace.remove(logs=False)
    assert [path.name for path in existing.iterdir()] == ["checkpoint-200"]


def test_directories_bear_a_marker_and_are_removed(tmp_path: Path) -> None:
    workplace = places.make_workplace(tmp_path / "new")
    assert (workplace.root / places.MARKER).exists()
    assert "doctor-rehearsal" in str(workplace.output("run"))
    workplace.remove(logs=False)
    assert not (tmp_path / "new").exists()
    assert not workplace.scratch.exists()


def test_the_marker_stays_while_another_rehearsal_is_there(tmp_path: Path) -> None:
    base = tmp_path / "new"
    first, second = places.make_workplace(base), places.make_workplace(base)
    first.remove(logs=False)
    assert (base / places.MARKER).exists()
    second.remove(logs=False)
    assert not base.exists()


def test_the_working_directory_is_linked_but_for_the_rehearsals_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "work"
    (here / "pkg" / "sub").mkdir(parents=True)
    (here / "many").mkdir()
    (here / ".git").mkdir()
    for name in ("train.py", "model.pt", "pkg/a.py", "many/0", "many/1", "many/2"):
        (here / name).write_text(name)
    monkeypatch.chdir(here)
    monkeypatch.setattr(places, "MOST_ENTRIES", 5)
    workplace = places.make_workplace(None)
    (here / "data").symlink_to(tmp_path)
    output = workplace.output("run")
    output.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(places, "MOST_ENTRIES", 2)
        places.link_working_directory(workplace, output)
    (output / "pkg" / "new.pt").write_text("new")
    (output / "train.py").unlink()
    assert sorted(each.name for each in (output / "doctor-rehearsal").iterdir()) == []
    assert {each.name for each in output.iterdir() if each.is_symlink()} == {
        ".git", "data", "many", "model.pt"
    }  # fmt: skip
    assert (output / "pkg" / "a.py").resolve() == here / "pkg" / "a.py"
    assert (here / "train.py").read_text() == "train.py"
    assert not (here / "pkg" / "new.pt").exists()
    assert on_disk.written(output) == len("new")
    assert on_disk.checkpoints(output)[0].path == "pkg/new.pt"


def _linked(here: Path, output_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """{output} of a rehearsal in `output_dir`, with what is in `here`."""
    monkeypatch.chdir(here)
    workplace = places.make_workplace(output_dir)
    output = workplace.output("run")
    output.mkdir()
    places.link_working_directory(workplace, output)
    return output


@pytest.mark.parametrize("alias", [False, True])
def test_a_rehearsal_within_a_directory_of_data_is_left_out_alone(
    alias: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, other = tmp_path / "work", tmp_path / "other"
    (here / "data").mkdir(parents=True)
    (here / "data" / "train.bin").write_text("x")
    other.symlink_to(here)
    output = _linked(here, (other if alias else here) / "data", monkeypatch)
    marker = {places.MARKER} if alias and (here / "data" / places.MARKER).exists() else set()
    assert {each.name for each in (output / "data").iterdir()} - marker == {"train.bin"}


def test_the_links_of_many_small_directories_have_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / "work" / "data" / str(number)).mkdir(parents=True)
        for name in "abcde":
            (tmp_path / "work" / "data" / str(number) / name).touch()
    (tmp_path / "work" / "ckpt").mkdir()
    monkeypatch.setattr(places, "MOST_LINKS", 33)
    output = _linked(tmp_path / "work", tmp_path / "rehearsals", monkeypatch)
    whole = [each for each in (output / "data").iterdir() if each.is_symlink()]
    assert len(whole) == 18  # 20 directories, and 2 times 5 files
    assert (output / "data" / "7" / "a").exists()
    assert not (output / "ckpt").is_symlink()


def test_a_directory_that_cannot_be_listed_is_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work" / "private").mkdir(parents=True)
    real = os.scandir

    def scandir(path: Any) -> Any:
        if os.path.basename(path) == "private":
            raise PermissionError
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    output = _linked(tmp_path / "work", tmp_path / "rehearsals", monkeypatch)
    assert (output / "private").is_symlink()


def test_a_disk_without_links_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def symlink_to(self: Path, target: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(self))

    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").touch()
    monkeypatch.setattr(Path, "symlink_to", symlink_to)
    with pytest.raises(UserError, match=r"--in-output: .*train.py: Operation not permitted"):
        _linked(tmp_path / "work", tmp_path / "rehearsals", monkeypatch)


def test_a_cache_that_holds_the_working_directory_is_not_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "cache").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    workplace = places.Workplace(tmp_path / "root", tmp_path / "scratch")
    environ = {"TORCH_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "cache")}
    allowed = places.writable(workplace, environ, ())
    assert str(tmp_path) not in allowed
    assert str(tmp_path / "cache") in allowed


def test_no_disk_is_a_writable_device() -> None:

    assert all(
        stat.S_ISCHR(os.stat(path).st_mode) or os.path.isdir(path) for path in places.devices()
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("srun -N 2 python train.py", "rehearse -- python train.py"),
        ("sbatch job.sh", "rehearse -- job.sh"),
        ("docker run image python train.py", "rehearse -- python train.py"),
        ("ssh node1 ls", "rehearse -- COMMAND"),
        ("torchrun --nnodes 2 train.py", "--nnodes 1"),
        ("torchrun --nnodes=2 train.py", "--nnodes 1"),
        ("accelerate launch --num_machines 2 train.py", "--num_machines 1"),
    ],
)
def test_who_hands_the_work_to_others_is_refused(line: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        refuse_launchers(line.split())
    assert words in str(error.value)


@pytest.mark.parametrize("line", ["python train.py", "torchrun --nnodes 1 train.py", "bash run.sh"])
def test_who_works_here_is_not(line: str) -> None:
    refuse_launchers(line.split())
