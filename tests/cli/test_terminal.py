"""The console report on a real (pseudo) terminal: escape sequences and width."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest
from command import program
from recorded import machine_file

from doctor.report.lines import Line
from doctor.report.terminal import environment_color

pytestmark = pytest.mark.slow  # starts processes


def on_terminal(*flags: str, columns: int = 100, **env: str) -> str:
    """What `doctor report` prints to a terminal."""
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    drop = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM")
    inherited = {name: value for name, value in os.environ.items() if name not in drop}
    command = [*program(), "report", str(machine_file("v100_torch2.11"))]
    process = subprocess.Popen(
        [*command, *flags], stdout=writing, env=inherited | {"TERM": "xterm-256color"} | env
    )
    os.close(writing)
    output = b""
    try:
        while chunk := os.read(reading, 65536):
            output += chunk
    except OSError:  # Linux: the other side is closed
        pass
    os.close(reading)
    assert process.wait() == 1
    return output.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colour() -> None:
    assert "\x1b[" in on_terminal()


@pytest.mark.parametrize(
    ("flags", "env"),
    [
        (("--color", "never"), {}),
        ((), {"NO_COLOR": "1"}),
        ((), {"CLICOLOR": "0"}),
        ((), {"TERM": "dumb"}),
    ],
)
def test_without_colour_there_is_no_escape_sequence(
    flags: tuple[str, ...], env: dict[str, str]
) -> None:
    """Neither for bold nor for dim."""
    text = on_terminal(*flags, **env)
    assert "\x1b" not in text
    assert "FIX: " in text


@pytest.mark.parametrize(
    ("environ", "color"),
    [
        ({}, "auto"),
        ({"NO_COLOR": "", "CLICOLOR": "1"}, "auto"),
        ({"CLICOLOR": "0"}, "never"),
        ({"CLICOLOR": "0", "FORCE_COLOR": "1"}, "auto"),
        ({"CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, "always"),
        ({"CLICOLOR_FORCE": "0"}, "auto"),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, "never"),
    ],
)
def test_the_environment_decides_about_colour(environ: dict[str, str], color: str) -> None:
    assert environment_color(environ) == color


def test_clicolor_force_colours_a_pipe() -> None:
    command = [sys.executable, "-m", "doctor", "report", str(machine_file("v100_torch2.11"))]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "TERM": ""}
    for forced in ({}, {"CLICOLOR_FORCE": "1"}):
        done = subprocess.run(command, env=env | forced, capture_output=True, check=False)
        assert (b"\x1b[" in done.stdout) is bool(forced)


@pytest.mark.parametrize("columns", [40, 60, 79])
def test_every_line_fits_a_narrow_terminal(columns: int) -> None:
    """Longer words, such as addresses, the heads of findings and commands are not broken."""
    lines = on_terminal("--color", "never", columns=columns).splitlines()
    (command,) = [line for line in lines if " -m pip install " in line]
    assert command.startswith("/opt/train/bin/python")
    assert command.endswith("/whl/cu126")
    lines.remove(command)
    assert not [line for line in lines if len(line) > columns and len(line.split()) > 3]


@pytest.mark.parametrize("width", [10, 40, 60, 79, 100])
def test_wrapped_lines_hold_all_words(width: int) -> None:
    line = Line("  FAIL TOR003 torch-runs-on-gpu  ", "a word " * 30, hang=14)
    rows = line.rows(width)
    assert rows[0][0] == line.prefix
    assert " ".join(" ".join(part for _, part in rows).split()) == ("a word " * 30).strip()
    assert all(len(indent) + len(part) <= max(width, 20) for indent, part in rows[1:])


CALL = "torch.backends.cuda.enable_cudnn_sdp(False)"


@pytest.mark.parametrize("width", [40, 50, 60])
def test_calls_and_code_with_spaces_stay_on_a_line_of_their_own(width: int) -> None:
    """They may be longer than the terminal; then they begin in column 0."""
    code = "`doctor scan --deep CHECKPOINT`"
    call = "optim.AdamW(params, foreach=True)"
    line = Line("       fix: ", f"Until then use {CALL} or {call}, and read {code} afterwards.")
    parts = [part for _, part in line.rows(width)]
    for each in (CALL, code, call):
        assert any(each in part for part in parts), each
    assert all(not indent for indent, part in line.rows(width) if len(part) >= width)
    assert " ".join(parts) == line.body


def test_a_command_without_room_begins_in_column_0() -> None:
    command = Line("         look $ ", "nvidia-smi -q -d ECC,ROW_REMAPPER", whole=True)
    assert command.rows(40) == [(command.prefix, ""), ("", command.body)]
    assert command.rows(50) == command.rows(None) == [(command.prefix, command.body)]


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_carets_stand_below_the_same_columns_at_every_width(width: int) -> None:
    code = "loss = " + "x" * 60 + ".mean() + y"
    span = (code.index(".mean"), code.index(".mean") + 7)
    carets = " " * span[0] + "^" * 7
    ((_, shown),) = Line("9 | ", code, span=span).rows(width)
    ((_, below),) = Line("  | ", carets, span=span).rows(width)
    assert len("9 | " + shown) <= width
    assert shown[below.index("^") : below.rindex("^") + 1] == ".mean()"
