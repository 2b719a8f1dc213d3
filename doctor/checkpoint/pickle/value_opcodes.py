"""Opcodes of pickles that push plain values, and those of the memo."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable
from typing import Any

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.pickle.nodes import Global, Persistent

LONGEST = 16 * 1024 * 1024
"""Bytes of one string: the source code and the tokenizers that are in some pickles are shorter."""

LONGEST_NAME = 500
"""Characters of a module or a global."""

WIDEST = 1024
"""Bytes of one number."""

_U16, _U32, _I32, _U64 = (struct.Struct(form) for form in ("<H", "<I", "<i", "<Q"))
_F64 = struct.Struct(">d")


class Machine:
    """The stack, the memo and the place in one pickle."""

    __slots__ = (
        "arrays", "at", "below", "called", "cuts", "data", "frame_end", "imports", "lenient",
        "made", "memo", "nested", "outer", "persistent", "protocol", "stack", "tricks", "valued",
    )  # fmt: skip

    def __init__(self, data: bytes, at: int, lenient: bool = False, cuts: bool = False) -> None:
        self.data = data
        self.at = at
        self.lenient = lenient
        """Go on wherever an unpickler could: only the imports are of interest."""
        self.cuts = cuts
        """Drop the rest of a frame where a number, a text or a line goes beyond its end, as
        CPython's unpickler does with a stream such as io.BytesIO; from bytes it goes on reading,
        and the content of a bytes object is read on in both."""
        self.arrays = False
        """Take what lies behind joblib's description of an array for its values."""
        self.outer: list[tuple[dict[int, Any], int, list[Any], list[list[object]]]] = []
        """Memo, protocol and stacks of the pickle in which an array of objects is being read."""
        self.frame_end = 0
        self.stack: list[Any] = []
        self.below: list[list[object]] = []
        self.memo: dict[int, Any] = {}
        self.imports: dict[Global, Global] = {}
        self.persistent: list[Persistent] = []
        self.nested: list[bytes] = []
        """Files of torch.save inside the pickle: what plain pickle makes of a tensor's storage."""
        self.protocol = 0
        self.called: dict[int, object] = {}
        """What is called, by id: a Global, or a node where the pickle calls what it made."""
        self.valued: dict[int, object] = {}
        """The same of calls with one plain value."""
        self.made: dict[int, object] = {}
        """The same of objects that are made with arguments, without a call."""
        self.tricks: dict[str, None] = {}

    def release(self) -> None:
        """Free what was read, which may be as much as a pickle may take."""
        for records in (self.stack, self.below, self.memo, self.persistent, self.nested):
            records.clear()
        for calls in (self.called, self.valued, self.made):
            calls.clear()


Handler = Callable[[Machine], None]


def protocol(machine: Machine) -> None:
    machine.protocol = protocol = machine.data[machine.at]
    machine.at += 1
    if protocol > 5 and not machine.lenient:
        raise CheckpointError(
            "not-inspectable", f"has a pickle of protocol {protocol}; 5 is the last known"
        )


def frame(machine: Machine) -> None:
    length = operand(machine, _U64)
    if machine.at < machine.frame_end < machine.at + length:
        _crosses(machine)
    machine.frame_end = max(machine.frame_end, machine.at + length)


def _crosses(machine: Machine) -> None:
    """What is read next crosses the end of a frame. No honest pickle does this."""
    if not machine.lenient:
        raise CheckpointError("not-inspectable", "has a pickle that reads beyond its frame")
    if machine.cuts:
        machine.at = machine.frame_end


def operand(machine: Machine, form: struct.Struct) -> Any:
    """A number of several bytes. Raises struct.error at the end of the data."""
    if machine.at < machine.frame_end < machine.at + form.size:
        _crosses(machine)
    at = machine.at
    machine.at += form.size
    return form.unpack_from(machine.data, at)[0]


# Strings and bytes: where they are cut, the place is behind the end, and no opcode follows.


def take(machine: Machine, size: int, *, cut: bool = True) -> bytes:
    """What follows; `cut`: a frame that ends before it may be dropped."""
    if size > LONGEST and not machine.lenient:
        text = f"has a pickle with a string of {size:,} bytes, over the {LONGEST:,} that are read"
        raise CheckpointError("not-inspectable" if size <= len(machine.data) else "damaged", text)
    if machine.at < machine.frame_end < machine.at + size and (cut or not machine.lenient):
        _crosses(machine)
    at = machine.at
    machine.at = end = at + size
    return machine.data[at:end]


def line(machine: Machine, limit: int = LONGEST) -> bytes:
    """What an opcode of protocol 0 reads."""
    at = machine.at
    end = machine.data.find(b"\n", at, at + limit + 1)
    if end < 0:
        raise CheckpointError("damaged", "has a pickle with a line that does not end")
    if at < machine.frame_end <= end:
        _crosses(machine)
        at = machine.at
    machine.at = end + 1
    return machine.data[at:end]


def size1(machine: Machine, *, cut: bool = True) -> bytes:
    machine.at += 1
    return take(machine, machine.data[machine.at - 1], cut=cut)


def size4(machine: Machine, *, cut: bool = True) -> bytes:
    return take(machine, operand(machine, _U32), cut=cut)


def size8(machine: Machine, *, cut: bool = True) -> bytes:
    return take(machine, operand(machine, _U64), cut=cut)


def text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _python2(data: bytes) -> str | bytes:
    """What Python 2 called str."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def short_binunicode(machine: Machine) -> None:
    machine.stack.append(text(size1(machine)))


def binunicode(machine: Machine) -> None:
    machine.stack.append(text(size4(machine)))


def binunicode8(machine: Machine) -> None:
    machine.stack.append(text(size8(machine)))


def unicode(machine: Machine) -> None:
    machine.stack.append(line(machine).decode("raw_unicode_escape"))


def short_binbytes(machine: Machine) -> None:
    machine.stack.append(size1(machine, cut=False))


def binbytes(machine: Machine) -> None:
    machine.stack.append(size4(machine, cut=False))


def binbytes8(machine: Machine) -> None:
    machine.stack.append(size8(machine, cut=False))


def short_binstring(machine: Machine) -> None:
    machine.stack.append(_python2(size1(machine)))


def binstring(machine: Machine) -> None:
    machine.stack.append(_python2(size4(machine)))


def string(machine: Machine) -> None:
    """A quoted line with escapes."""
    quoted = line(machine).strip(b" \t\r\x0b\x0c") if machine.lenient else line(machine)
    if len(quoted) < 2 or quoted[0] != quoted[-1] or quoted[:1] not in (b"'", b'"'):
        raise CheckpointError("damaged", "has a pickle with a STRING that is not quoted")
    machine.stack.append(_python2(bytes(codecs.escape_decode(quoted[1:-1])[0])))


# Numbers


def binint(machine: Machine) -> None:
    machine.stack.append(operand(machine, _I32))


def binint1(machine: Machine) -> None:
    machine.stack.append(machine.data[machine.at])
    machine.at += 1


def binint2(machine: Machine) -> None:
    machine.stack.append(operand(machine, _U16))


def binfloat(machine: Machine) -> None:
    machine.stack.append(operand(machine, _F64))


def number(machine: Machine, data: bytes) -> None:
    if len(data) > WIDEST and not machine.lenient:
        raise CheckpointError(
            "not-inspectable", f"has a pickle with a number of {len(data):,} bytes"
        )
    machine.stack.append(int.from_bytes(data, "little", signed=True))


def long1(machine: Machine) -> None:
    number(machine, size1(machine))


def long4(machine: Machine) -> None:
    number(machine, size4(machine))


def _parsed(machine: Machine, parse: Callable[[bytes], object]) -> None:
    """The number in a line. Where only imports are of interest, 0 stands for odd spellings."""
    digits = line(machine, LONGEST if machine.lenient else WIDEST)
    try:
        machine.stack.append(parse(digits))
    except ValueError:
        if not machine.lenient:
            raise
        machine.stack.append(0)


def int_(machine: Machine) -> None:
    booleans = {b"00": False, b"01": True}
    _parsed(machine, lambda digits: booleans[digits] if digits in booleans else int(digits))


def long_(machine: Machine) -> None:
    _parsed(machine, lambda digits: int(digits.rstrip(b"L")))


def float_(machine: Machine) -> None:
    _parsed(machine, float)


# The memo is a dictionary: a number in the file never sizes anything.


def memoize(machine: Machine) -> None:
    machine.memo[len(machine.memo)] = machine.stack[-1]


def binput(machine: Machine) -> None:
    machine.memo[machine.data[machine.at]] = machine.stack[-1]
    machine.at += 1


def long_binput(machine: Machine) -> None:
    machine.memo[operand(machine, _U32)] = machine.stack[-1]


def put(machine: Machine) -> None:
    number = int(line(machine, WIDEST if machine.lenient else 20))
    machine.memo[number] = machine.stack[-1]


def binget(machine: Machine) -> None:
    machine.stack.append(machine.memo[machine.data[machine.at]])
    machine.at += 1


def long_binget(machine: Machine) -> None:
    machine.stack.append(machine.memo[operand(machine, _U32)])


def get(machine: Machine) -> None:
    machine.stack.append(machine.memo[int(line(machine, WIDEST if machine.lenient else 20))])
