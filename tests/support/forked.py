"""The program that stands for a fork of a server of preloaded.py, and ends as the fork ends.

`forked.py SOCKET ARGUMENT...`. It is started for every probe of the tests, so it imports as little
as can be.
"""

import _socket
import array
import marshal
import os
import sys

MESSAGE = 1 << 18  # as in preloaded.py


def main(address: str, arguments: list[str]) -> None:
    """Pass everything on to the server; where no fork can stand for it, become the interpreter."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    connection.connect(address)
    prefixes, later, expected = marshal.loads(connection.recv(MESSAGE))
    environment = dict(os.environ)
    start = {
        name: value
        for name, value in environment.items()
        if name.startswith(prefixes) and name not in later
    }
    is_script = arguments and (arguments[0] == "-c" or not arguments[0].startswith("-"))
    if not is_script or start != expected:
        os.execv(sys.executable, [sys.executable, *arguments])
    numbers = [int(name) for name in os.listdir("/dev/fd")]
    numbers = [number for number in numbers if number != connection.fileno() and is_open(number)]
    request = {"argv": arguments, "cwd": os.getcwd(), "env": environment, "numbers": numbers}
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", numbers))
    connection.sendmsg([marshal.dumps(request)], [rights])
    for number in numbers:
        os.close(number)
    end(int(connection.recv(64) or 256))


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def end(status: int) -> None:
    """By the exit code or the signal of a wait status."""
    if os.WIFSIGNALED(status):
        import resource
        import signal

        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
