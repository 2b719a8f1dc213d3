"""Standard streams that are always open, and that a reader may close early."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from doctor._util.errors import UserError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def open_standard_streams() -> None:
    """Open closed streams on /dev/null, and make output to a closed pipe vanish silently.

    A pipe to a probe would otherwise take the number of a closed stream. Raises UserError if there
    is no /dev/null.
    """
    try:
        null = os.open(os.devnull, os.O_RDWR)
    except OSError as error:
        raise UserError(f"{os.devnull} cannot be opened ({error.strerror}): mount /dev") from None
    while null <= 2:
        null = os.open(os.devnull, os.O_RDWR)
    os.close(null)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - open for the whole run
    sys.stdout = _tolerant(sys.stdout or open(1, "w", closefd=False))  # noqa: SIM115
    sys.stderr = _tolerant(sys.stderr or open(2, "w", closefd=False))  # noqa: SIM115


def without_waiting(path: str, flags: int) -> int:
    """An opener for open(): a pipe that nobody writes to is opened without waiting for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def flush() -> None:
    """Flush stdout, so that nothing can fail when Python exits."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Tolerant(io.FileIO):
    """A descriptor; what is written after its reader has closed it is dropped.

    What stderr cannot take for another reason, such as a full disk, is dropped, too.
    """

    def write(self, data: ReadableBuffer, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            if not isinstance(error, BrokenPipeError) and self.fileno() != 2:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return memoryview(data).nbytes


def _tolerant(stream: TextIO) -> TextIO:
    """The stream, written through `_Tolerant`: typer and rich exit with 1 for a closed pipe."""
    if stream.isatty():
        return stream
    stream.flush()
    raw = _Tolerant(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=getattr(stream, "line_buffering", False),
        write_through=getattr(stream, "write_through", False),
    )
