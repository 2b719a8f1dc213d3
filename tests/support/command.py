"""The command `doctor` in a process of its own, without importing the doctor anew each time.

A server that has imported the doctor, and done nothing else, forks for every command. The fork gets
its own streams, working directory and environment, so exit codes, output and files are those of a
real process. Variables that Python reads when it starts cannot be set for a fork: then, and for
any option of subprocess that is not listed here, a new interpreter is started.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

TIMEOUT = 240.0
AT_START = ("PYTHON", "LC_", "LANG", "LD_PRELOAD")
"""Prefixes of variables that are read before any code runs."""
PRELOADED = (
    "doctor.cli.main",
    "doctor.cli.app",
    "doctor.cli.run",
    "doctor.report.delivery",
    "doctor.cli.replay",
    "doctor.cli.scan",
    "doctor.cli.triage",
    "doctor.cli.lint.command",
    "doctor.cli.guard",
    "doctor.report.explain",
    "doctor.report.lint",
    "rich.console",
    "doctor.collect.collect",
    "doctor.cli.lint.arguments",
    "doctor.cli.read_arguments",
    "doctor.cli.read",
    "doctor.cli.lint.fix",
    "doctor.report.tables",
    "doctor.report.checkpoint",
    "doctor.report.triage",
    "doctor.log.ahead",
    "doctor.cli.init_template",
    "pydantic.type_adapter",
    "pydantic.fields",
    "importlib.metadata",  # typer's first option
    "typer._adapters",
    "typer._click.decorators",
)
"""What the commands import, at once or when they are used."""
MAIN = "import sys; sys.argv[0] = 'doctor'; from doctor.cli.main import main; main()"


def program() -> list[str]:
    """The beginning of a command line for a process with streams that the caller makes."""
    import preloaded  # the server of this module is started without this folder

    return [preloaded.python(PRELOADED), "-c", MAIN]


def doctor(
    *arguments: object,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,
    umask: int | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `env` is the whole environment, `input` comes through a pipe."""
    words = [str(argument) for argument in arguments]
    variables = dict(os.environ if env is None else env)
    if options or _at_start(variables) != _at_start(dict(os.environ)):
        command = [sys.executable, "-P", "-m", "doctor", *words]
        settings = {"capture_output": True, "text": True, "timeout": TIMEOUT, "input": input}
        settings |= options | ({} if umask is None else {"umask": umask})
        return subprocess.run(command, cwd=cwd, env=variables, check=False, **settings)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        request = {
            "argv": words, "cwd": str(cwd or Path.cwd()), "env": variables, "umask": umask
        }  # fmt: skip
        connection, message = _server(), json.dumps(request).encode()
        with _piped(input) as stdin:
            socket.send_fds(connection, [message], [out.fileno(), err.fileno(), *stdin])
        code = json.loads(connection.recv(64))
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read().decode(), err.read().decode()
    return subprocess.CompletedProcess(words, code, stdout, stderr)


@contextlib.contextmanager
def _piped(text: str | None) -> Iterator[list[int]]:
    """The end of a pipe that a thread writes the text to; nothing without a text."""
    if text is None:
        yield []
        return
    reading, writing = os.pipe()

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), open(writing, "w", encoding="utf-8") as pipe:
            pipe.write(text)

    threading.Thread(target=write, daemon=True).start()
    try:
        yield [reading]
    finally:
        os.close(reading)


def _at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(AT_START)}


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(TIMEOUT)
    command = [sys.executable, "-P", __file__, str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    atexit.register(process.wait)
    atexit.register(process.kill)
    return ours


def serve(connection: socket.socket) -> None:
    """Fork for every request and answer with the exit code, until the other side closes."""
    for module in PRELOADED:
        with contextlib.suppress(ModuleNotFoundError):  # an older typer has fewer modules
            __import__(module)
    patience = runpy.run_path(str(Path(__file__).with_name("patience.py")))
    patience["wait_for_a_busy_machine"]()
    gc.collect()
    gc.freeze()  # a fork neither examines nor copies what is imported
    while True:
        message, streams, _, _ = socket.recv_fds(connection, 2**20, 3)
        if not message:
            return
        child = os.fork()
        if not child:
            connection.close()
            _run(json.loads(message), streams)
        for stream in streams:
            os.close(stream)
        status = os.waitpid(child, 0)[1]
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _run(request: dict[str, Any], streams: list[int]) -> None:
    from doctor.cli.main import main

    if request["umask"] is not None:
        os.umask(request["umask"])
    for stream, number in zip(streams, (1, 2, 0), strict=False):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["doctor", *request["argv"]]
    try:
        main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    else:
        code = 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # finalization would copy every page of what is imported


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
