"""An interpreter that has torch imported already, for probes that many tests start.

`python()` is a program to start in place of the interpreter. It hands its arguments, environment,
working directory and descriptors to a server that has imported torch and done nothing else; a fork
of the server runs the script in a session of its own. The program ends as the fork does, by an exit
code or a signal, and the fork is killed with it. What Python or torch read when they start cannot
be set for a fork: with such variables, and for anything but a script, the program becomes the
interpreter itself.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import json
import os
import resource
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

AT_START = ("PYTHON", "LD_", "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "TORCH", "PYTORCH",
            "CUDA", "NVIDIA", "CUBLAS", "NCCL")  # fmt: skip
"""Prefixes of variables that are read at the start or while torch is imported."""
LATER = ("PYTHONPATH",)
"""Variables that a fork follows although they begin with such a prefix."""
HIGH = 500
"""Descriptors from here on are free for a moment."""
MESSAGE = 1 << 18


@cache
def python() -> str:
    """The path of the program; its server lives as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="torch-"))
    reading, writing = os.pipe()
    command = [sys.executable, "-P", __file__, "serve", str(folder / "socket"), str(writing)]
    env = at_start(os.environ)  # and no variable by which a test finds its own processes
    server = subprocess.Popen(
        command, pass_fds=[writing], stdin=subprocess.PIPE, env=env, start_new_session=True
    )
    os.close(writing)
    atexit.register(server.wait)
    atexit.register(server.kill)
    if not os.read(reading, 1):
        raise RuntimeError("the server ended before it was ready")
    os.close(reading)
    program = folder / "python"
    client = f"{sys.executable} -I -S {__file__} run {folder / 'socket'}"
    program.write_text(f'#!/bin/sh\nexec {client} "$@"\n')
    program.chmod(0o755)
    return str(program)


def at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(AT_START) and name not in LATER
    }


def run(address: str, arguments: list[str]) -> None:
    """Be the script's process: pass everything on, and end as the fork ends."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(address)
    expected = json.loads(connection.recv(MESSAGE))
    if not arguments or arguments[0].startswith("-") or at_start(os.environ) != expected:
        os.execv(sys.executable, [sys.executable, *arguments])
    numbers = [int(name) for name in os.listdir("/dev/fd")]
    numbers = [number for number in numbers if number != connection.fileno() and is_open(number)]
    request = {"argv": arguments, "cwd": os.getcwd(), "env": dict(os.environ), "numbers": numbers}
    socket.send_fds(connection, [json.dumps(request).encode()], numbers)
    for number in numbers:
        os.close(number)
    status = int(connection.recv(64) or 256)
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if status & 127 != signal.SIGKILL else 0
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def serve(address: str, ready: int) -> dict[str, object]:
    """Fork for every connection; in a fork, return its request. Ends with the parent's pipe."""
    start = json.dumps(at_start(os.environ)).encode()
    import numpy  # noqa: F401
    import torch  # noqa: F401

    gc.freeze()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(address)
    listening.listen(64)
    os.write(ready, b"1")
    os.close(ready)
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ, ("end", 0, None))
    selector.register(listening, selectors.EVENT_READ, ("accept", 0, None))
    while True:
        for key, _ in selector.select():
            kind, pid, connection = key.data
            if key.fd not in selector.get_map():  # an event before it ended this connection
                continue
            if kind == "end":
                os._exit(0)
            elif kind == "accept":
                connection = listening.accept()[0]
                with contextlib.suppress(OSError):  # a program that was killed at once
                    connection.send(start)
                selector.register(connection, selectors.EVENT_READ, ("request", 0, connection))
            elif kind == "request":
                selector.unregister(connection)
                message, descriptors = b"", []
                with contextlib.suppress(OSError):
                    message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE, 64)
                if not message:
                    connection.close()
                    continue
                pid = os.fork()
                if not pid:
                    selector.close()
                    listening.close()
                    connection.close()
                    return {**json.loads(message), "descriptors": descriptors}
                for descriptor in descriptors:
                    os.close(descriptor)
                selector.register(
                    os.pidfd_open(pid), selectors.EVENT_READ, ("exit", pid, connection)
                )
                selector.register(connection, selectors.EVENT_READ, ("gone", pid, connection))
            elif kind == "gone":
                selector.unregister(connection)
                kill_group(pid)
            else:
                selector.unregister(key.fd)
                os.close(key.fd)
                kill_group(pid)
                status = os.waitpid(pid, 0)[1]
                if connection.fileno() in selector.get_map():
                    selector.unregister(connection)
                    with contextlib.suppress(OSError):
                        connection.send(str(status).encode())
                connection.close()


def kill_group(pid: int) -> None:
    """What the fork started may not outlive it."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def become(request: dict) -> str:
    """Take over the descriptors, the directory, the environment and the arguments."""
    os.setsid()
    high = [fcntl.fcntl(number, fcntl.F_DUPFD, HIGH) for number in request["descriptors"]]
    for number in request["descriptors"]:
        os.close(number)
    for number, target in zip(high, request["numbers"], strict=True):
        os.dup2(number, target)
        os.close(number)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["argv"]
    search = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:] = [os.path.dirname(os.path.realpath(sys.argv[0])), *search, *sys.path]
    if any(os.path.exists(os.path.join(folder, "sitecustomize.py")) for folder in search):
        sys.modules.pop("sitecustomize", None)
        import sitecustomize  # noqa: F401
    return sys.argv[0]


def end(script: str) -> int:
    """The exit code of the script, with its traceback printed, if there is one."""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 255
        print(error.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def main() -> None:
    if sys.argv[1] == "run":
        run(sys.argv[2], sys.argv[3:])
    code = end(become(serve(sys.argv[2], int(sys.argv[3]))))
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # finalization would copy every page of torch's objects


if __name__ == "__main__":
    main()
