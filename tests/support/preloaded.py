"""An interpreter that has torch imported already, for probes that many tests start.

`python()` is a program to start in place of the interpreter. It hands its arguments, environment,
working directory and descriptors to a server that has imported torch and done nothing else; a fork
of the server runs the script in a session of its own. The program ends as the fork does, by an exit
code or a signal, and the fork is killed with it. What Python or torch read when they start cannot
be set for a fork: with such variables, and for anything but a script or `-c`, the program becomes
the interpreter itself.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import hashlib
import importlib
import json
import marshal
import os
import runpy
import selectors
import shlex
import signal
import socket
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

AT_START = ("PYTHON", "LD_", "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "TORCH", "PYTORCH",
            "CUDA", "NVIDIA", "CUBLAS", "ONEDNN", "ATEN")  # fmt: skip
"""Prefixes of variables that are read at the start or while torch is imported."""
LATER = (
    "PYTHONPATH",
    "TORCHINDUCTOR_CACHE_DIR",
    "PYTORCH_NVML_BASED_CUDA_CHECK",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
)
"""Variables that a fork follows although they begin with such a prefix.

transformers and Lightning set the second and third in the process that imports them, accelerate
sets the last two for Intel's OpenMP, which the wheels of torch do not use.
"""
FOR_CHILDREN = ("LD_LIBRARY_PATH",)
"""Is read by the children alone where a fork has no torch, which could look for a driver."""
TEMPORARY = tempfile.gettempdir() if len(tempfile.gettempdir()) < 64 else "/tmp"
"""As it is while this module is imported: a test may set another. The address of a socket, which
lies there, has at most 107 bytes."""
MESSAGE = 1 << 18
FORKED = Path(__file__).with_name("forked.py")
STAY = b"stay"
"""The message of a process that uses the server for as long as its connection is open."""


BARE = ("numpy", "numpy.random", "torch")
TORCH = (*BARE, "torch._dynamo")
"""With what the first optimizer of torch.optim imports, in as much time as torch itself."""
TRAINER = (
    *TORCH,
    "transformers.models.auto.modeling_auto",
    "transformers.models.llama.modeling_llama",
    "transformers.trainer",
    "peft",
)
"""What a training with LoRA imports."""
READERS = ("doctor.checkpoint.scan", "doctor.checkpoint.formats.torch_files")
"""What reads checkpoints."""
OFFLINE = {"HF_HUB_OFFLINE": "1"}
"""Is read while transformers is imported."""
_connections: list[socket.socket] = []
"""To the servers, open until this process ends."""


@cache
def python(modules: tuple[str, ...] = TORCH, **variables: str) -> str:
    """The path of the program of a server that has imported these modules, in this order.

    `variables` are read when Python or torch starts; those of this process are set as well.
    """
    variables = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")} | OFFLINE | variables
    folder = _folder(json.dumps([modules, variables]))
    address, program = folder / "socket", folder / "python"
    with alone(folder):
        if not _connect(address):
            address.unlink(missing_ok=True)
            _start(address, modules, at_start(os.environ) | variables)
            words = shlex.join([sys.executable, "-I", "-S", str(FORKED), str(address)])
            program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            program.chmod(0o755)
    return str(program)


def _folder(key: str) -> Path:
    """One for the same key in all workers of this test run."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    name = hashlib.sha256(f"{run} {key}".encode()).hexdigest()[:16]
    folder = Path(TEMPORARY, f"torch-{name}")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One worker after the other works in a folder."""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _connect(address: Path) -> bool:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(str(address))
        connection.recv(MESSAGE)
        connection.send(STAY)
        stays = bool(connection.recv(MESSAGE))
    except OSError:
        stays = False
    if stays:
        _connections.append(connection)
    else:
        connection.close()
    return stays


def _start(address: Path, modules: tuple[str, ...], variables: dict[str, str]) -> None:
    """Start a server without any variable by which a test finds its own processes."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    command = [sys.executable, "-P", __file__, str(address), str(writing), *modules]
    os.posix_spawn(sys.executable, command, variables, setsid=True)
    os.close(writing)
    ready = os.read(reading, 1)
    os.close(reading)
    if not (ready and _connect(address)):
        raise RuntimeError("the server ended before it was ready")


def at_start(variables: Mapping[str, str], later: tuple[str, ...] = LATER) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(AT_START) and name not in later
    }


def serve(address: str, ready: int, modules: list[str]) -> dict[str, object]:
    """Fork for every request; in a fork, return it. Ends when nobody stays."""
    for module in modules:
        importlib.import_module(module)
    later = LATER if "torch" in sys.modules else LATER + FOR_CHILDREN
    start = marshal.dumps((AT_START, later, at_start(os.environ, later)))
    gc.freeze()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(address)
    listening.listen(64)
    os.write(ready, b"1")
    os.close(ready)
    selector = selectors.DefaultSelector()
    selector.register(listening, selectors.EVENT_READ, ("accept", 0, None))
    staying = 0
    while True:
        for key, _ in selector.select():
            kind, pid, connection = key.data
            if key.fd not in selector.get_map():  # an event before it ended this connection
                continue
            if kind == "accept":
                connection = listening.accept()[0]
                with contextlib.suppress(OSError):  # a program that was killed at once
                    connection.send(start)
                selector.register(connection, selectors.EVENT_READ, ("request", 0, connection))
            elif kind == "request":
                selector.unregister(connection)
                message, descriptors = b"", []
                with contextlib.suppress(OSError):
                    message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE, 64)
                if message == STAY:
                    staying += 1
                    connection.send(STAY)
                    selector.register(connection, selectors.EVENT_READ, ("leave", 0, connection))
                    continue
                if not message:
                    connection.close()
                    continue
                pid = os.fork()
                if not pid:
                    selector.close()
                    listening.close()
                    connection.close()
                    return {**marshal.loads(message), "descriptors": descriptors}
                for descriptor in descriptors:
                    os.close(descriptor)
                selector.register(
                    os.pidfd_open(pid), selectors.EVENT_READ, ("exit", pid, connection)
                )
                selector.register(connection, selectors.EVENT_READ, ("gone", pid, connection))
            elif kind == "leave":
                selector.unregister(connection)
                connection.close()
                staying -= 1
                if not staying:
                    os._exit(0)
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
    """The fork, which may not have its own session yet, and what it started."""
    os.kill(pid, signal.SIGKILL)  # it was not waited for, so the number is still its own
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def become(request: dict) -> str:
    """Take over the descriptors, the directory, the environment and the arguments."""
    os.setsid()
    free = 1 + max((*request["numbers"], *request["descriptors"]))
    high = [fcntl.fcntl(number, fcntl.F_DUPFD, free) for number in request["descriptors"]]
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
    first = "" if sys.argv[0] == "-c" else os.path.dirname(os.path.realpath(sys.argv[0]))
    sys.path[:] = [first, *search, *sys.path]
    if any(os.path.exists(os.path.join(folder, "sitecustomize.py")) for folder in search):
        sys.modules.pop("sitecustomize", None)
        import sitecustomize  # noqa: F401
    return sys.argv[0]


def end(script: str) -> int:
    """The exit code of the script, with its traceback printed, if there is one."""
    try:
        if script == "-c":
            main_module = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(sys.argv.pop(1), vars(main_module))
        else:
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
    code = end(become(serve(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # finalization would copy every page of torch's objects


if __name__ == "__main__":
    main()
