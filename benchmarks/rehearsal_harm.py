"""Dangerous commands under doctor rehearse: nothing outside changes, arrives or stays.

    python benchmarks/rehearsal_harm.py [--moments 30] [WORD...]

Each command runs beside a real run in a directory of its own, with a server that would take
uploads. The trees are hashed before and after. Then SIGKILL is sent to the doctor, to the command
and to a child of it, at `--moments` moments each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

PYTHON = "{python} -c "
COMMANDS = {
    "redirection": "echo lost > {real}/model.safetensors",
    "append": "echo more >> {real}/train.log",
    "rm -r": "rm -r {real}",
    "rm of the directory above": "rm -rf {real}/..",
    "find -delete": "find {real} -type f -delete",
    "mv of the run": "mv {real} {real}.old",
    "mv into the run": "echo x > {output}/x; mv {output}/x {real}/model.safetensors",
    "cp over": "echo x > {output}/x; cp {output}/x {real}/model.safetensors",
    "truncate": "truncate -s 0 {real}/model.safetensors",
    "dd": "dd if=/dev/zero of={real}/model.safetensors count=1",
    "tee": "echo x | tee {real}/train.log",
    "sed -i": "sed -i s/1/2/ {real}/trainer_state.json",
    "touch": "touch {real}/checkpoint-999",
    "mkdir": "mkdir -p {real}/checkpoint-300",
    "chmod": "chmod -R 000 {real}",
    "times": "touch -d 2001-01-01 {real}/model.safetensors",
    "hard link": "ln -f {real}/model.safetensors {output}/l; echo lost > {output}/l",
    "symbolic link": "ln -s {real} {output}/l; echo lost > {output}/l/model.safetensors",
    "symbolic link of the run": "ln -sfn /nowhere {real}/latest",
    "tar over": "tar cf {output}/a.tar -C / etc/hostname ; tar xf {output}/a.tar -C {real}",
    "git clean": "cd {real} && git init -q . && git clean -fdxq",
    "open for writing": PYTHON + "\"open('{real}/model.safetensors', 'wb').write(b'x')\"",
    "rmtree": PYTHON + "\"import shutil; shutil.rmtree('{real}')\"",
    "rmtree without hooks": "{python} -IS -c \"import shutil; shutil.rmtree('{real}')\"",
    "save_total_limit": PYTHON + '"import shutil, glob, os; '
    "[shutil.rmtree(p) for p in sorted(glob.glob('{real}/checkpoint-*'))[:-1]]\"",
    "rename over": PYTHON + "\"import os; open('{output}/x', 'w'); "
    "os.replace('{output}/x', '{real}/model.safetensors')\"",
    "os.truncate": PYTHON + "\"import os; os.truncate('{real}/model.safetensors', 0)\"",
    "mmap": PYTHON + "\"import mmap, os; f = os.open('{real}/model.safetensors', os.O_RDWR); "
    "mmap.mmap(f, 0)[:1] = b'x'\"",
    "C library": PYTHON + '"import ctypes; l = ctypes.CDLL(None); '
    "l.unlink(b'{real}/model.safetensors'); l.truncate(b'{real}/train.log', 0)\"",
    "torch.save": PYTHON + "\"import torch; torch.save({{}}, '{real}/model.safetensors')\"",
    "safetensors": PYTHON + '"import torch; from safetensors.torch import save_file; '
    "save_file({{'a': torch.ones(3)}}, '{real}/model.safetensors')\"",
    "numpy": PYTHON + "\"import numpy; numpy.save('{real}/data.npy', numpy.ones(3))\"",
    "home": "echo x > ~/.rehearsal-harm; rm -rf ~/keep",
    "working directory": "echo x > lost.txt; rm -f notes.txt",
    "HTTP PUT": PYTHON + "\"import http.client as h; c = h.HTTPConnection('127.0.0.1', {port}, "
    "timeout=3); c.request('PUT', '/bucket/key', b'x'); c.getresponse()\"",
    "HTTP without hooks": '{python} -IS -c "import urllib.request as u; '
    "u.urlopen('http://127.0.0.1:{port}/', b'x', 3)\"",
    "raw socket": PYTHON + '"import socket; '
    "socket.create_connection(('127.0.0.1', {port}), 3).sendall(b'PUT / HTTP/1.0\\r\\n\\r\\n')\"",
    "push to the hub": PYTHON + "\"import huggingface_hub as h; h.create_repo('someone/model'); "
    "h.upload_folder(repo_id='someone/model', folder_path='{output}')\"",
    "file system of another machine": PYTHON + '"import fsspec; '
    "fsspec.open('http://127.0.0.1:{port}/x', 'wb').open().write(b'x')\"",
    "requeue": "scontrol requeue 7 && scancel 8; sbatch again.sh",
    "ssh": "ssh 127.0.0.1 touch {real}/lost",
    "daemon": "setsid nohup sleep 600 > /dev/null 2>&1 &",
    "double fork": "(setsid sh -c 'sleep 600 &' &)",
    "deaf to SIGTERM": "trap '' TERM HUP INT; (trap '' TERM; sleep 600) &",
    "many processes": "for i in 1 2 3 4 5 6 7 8 9; do setsid sleep 600 & done",
    "signal to another process": "kill -9 {bystander}; kill -9 -1",
    "full output": "head -c 3000000 /dev/zero > {output}/big; ulimit -f 1; echo x > {real}/x",
    "debugger": PYTHON + '"import ctypes; print(ctypes.CDLL(None).ptrace(16, {bystander}, 0, 0))"',
    "mount": "umount -l {real}; mount -t tmpfs none {real} && echo x > {real}/x",
    "new namespace": "unshare -Urm sh -c 'mount -o remount,rw / ; echo x > {real}/x; rm -r {real}'",
    "proc of the doctor": "echo x > /proc/$PPID/cwd/lost; rm -rf /proc/$PPID/root{real}",
}


class Server(HTTPServer):
    """Counts everything that arrives."""

    def __init__(self) -> None:
        self.hits = 0
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def get_request(self) -> Any:
        self.hits += 1
        return super().get_request()


class Handler(BaseHTTPRequestHandler):
    def handle(self) -> None:
        self.connection.close()


def tree(directory: Path) -> dict[str, Any]:
    """Mode, time and hash of everything below."""
    found: dict[str, Any] = {}
    for path in sorted(directory.rglob("*")):
        state = path.lstat()
        text = b""
        if path.is_symlink():
            text = str(path.readlink()).encode()
        elif path.is_file():
            text = path.read_bytes()
        found[str(path)] = state.st_mode, state.st_mtime_ns, hashlib.sha256(text).hexdigest()
    return found


def plant(directory: Path) -> Path:
    """A real run, a home and a working directory."""
    real = directory / "runs" / "real"
    for step in (100, 200):
        (real / f"checkpoint-{step}").mkdir(parents=True)
        (real / f"checkpoint-{step}" / "model.safetensors").write_bytes(os.urandom(64))
    (real / "model.safetensors").write_bytes(os.urandom(64))
    (real / "train.log").write_text("step 1\n")
    (real / "trainer_state.json").write_text('{"global_step": 1}')
    (directory / "home" / "keep").mkdir(parents=True)
    (directory / "home" / "keep" / "thesis.tex").write_text("words")
    (directory / "work").mkdir()
    (directory / "work" / "notes.txt").write_text("notes")
    return real


def processes(directory: Path) -> list[str]:
    """Commands whose environment names the directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdecimal()
                and str(directory).encode() in (entry / "environ").read_bytes()
            ):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append(f"{entry.name} {command}")
        except OSError:
            continue
    return found


def start(directory: Path, line: str) -> subprocess.Popen[str]:
    words = ["rehearse", "--no-config", "--format", "json", "--budget", "60s", "--output-dir"]
    words += [str(directory / "rehearsal"), "--", "sh", "-c", line]
    environment = {**os.environ, "HOME": str(directory / "home")}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "doctor", *words], cwd=directory / "work", env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip


def harm(name: str, line: str, server: Server) -> str:
    """What the command changed, "" for nothing."""
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        with tempfile.TemporaryDirectory(prefix="harm-") as text:
            directory = Path(text)
            real = plant(directory)
            words = {"real": real, "output": "{output}", "python": sys.executable,
                     "port": server.server_port, "bystander": bystander.pid}  # fmt: skip
            before, hits = tree(directory), server.hits
            process = start(directory, line.format(**words))
            out, _ = process.communicate(timeout=300)
            after = {p: s for p, s in tree(directory).items() if "/rehearsal" not in p}
            report = json.loads(out)
            changed = sorted(
                {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
            )
            problems = [f"changed {changed[0]}"] if changed else []
            problems += [f"{server.hits - hits} requests arrived"] if server.hits > hits else []
            problems += [f"left {left}" for left in processes(directory / "rehearsal")]
            problems += ["killed the bystander"] if bystander.poll() is not None else []
            said = next(f for f in report["findings"] if f["code"] == "RHS001")
            print(f"{name}: {said['status']}: {said['summary'][:110]}", flush=True)
            return "; ".join(problems)
    finally:
        bystander.kill()
        bystander.wait()


WORK = "setsid sleep 300 & {python} -c \"import subprocess, time; " \
    "[subprocess.Popen(['sleep', '300'], start_new_session=True) for _ in range(3)]; " \
    "time.sleep(300)\" & sleep 300"  # fmt: skip


def kill(whom: str, moment: float) -> str:
    """Kill the doctor, the command or a child after some seconds; what is left 20 s later."""
    with tempfile.TemporaryDirectory(prefix="harm-") as text:
        directory = Path(text)
        plant(directory)
        process = start(directory, WORK.format(python=sys.executable))
        time.sleep(moment)
        own = [int(line.split()[0]) for line in processes(directory / "rehearsal")]
        pid = process.pid if whom == "doctor" or not own else own[0 if whom == "command" else -1]
        os.kill(pid, signal.SIGKILL)
        if whom != "doctor":
            time.sleep(1.0)
            process.kill()  # a killed child leaves the rest running, until --budget
        process.communicate()
        deadline = time.monotonic() + 20
        while (left := processes(directory / "rehearsal")) and time.monotonic() < deadline:
            time.sleep(0.2)
        return "; ".join(left)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--moments", type=int, default=30)
    args = parser.parse_args()
    server = Server()
    chosen = {
        n: c for n, c in COMMANDS.items() if not args.words or any(w in n for w in args.words)
    }
    bad = {name: found for name, line in chosen.items() if (found := harm(name, line, server))}
    generator = random.Random(0)
    moments = [generator.uniform(0.1, 3.0) for _ in range(args.moments)]
    for whom in ("doctor", "command", "child"):
        left = [found for moment in moments if (found := kill(whom, moment))]
        print(f"SIGKILL of the {whom} at {len(moments)} moments: processes left {len(left)} times")
        bad |= {f"SIGKILL of the {whom}": left[0]} if left else {}
    print(f"{len(chosen)} commands; harm done by {len(bad)}")
    for name, found in bad.items():
        print(f"  {name}: {found}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
