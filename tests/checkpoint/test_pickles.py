"""Pickles are read as what they describe; nothing in them happens."""

from __future__ import annotations

import collections
import copyreg
import io
import math
import pickle
import pickletools
from typing import Any

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.pickle.nodes import (
    Global,
    Key,
    ObjectNode,
    Persistent,
    attributes,
    mapping,
    members,
)
from doctor.checkpoint.pickle.opcodes import OPCODES, OUTSIDE, STOP
from doctor.checkpoint.pickle.reader import LARGEST, read_pickle

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


class Point:
    def __init__(self, x: Any) -> None:
        self.x = x


class Slotted:
    __slots__ = ("x",)


class Named:
    def __new__(cls, *, x: int) -> Named:
        return super().__new__(cls)

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, int]]:
        return (), {"x": 3}


def refused(data: bytes) -> CheckpointError:
    with pytest.raises(CheckpointError) as raised:
        read_pickle(data)
    return raised.value


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 130), 1 << 130)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(st.text() | st.integers(-1000, 1000), inner, max_size=5)
    ),
    max_leaves=20,
)


@settings(deadline=None, max_examples=examples(200))
@given(plain, st.sampled_from([2, 3, 4, 5]))
def test_plain_values_are_themselves(value: Any, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    read = read_pickle(data + b"behind")
    assert read.end == len(data)
    assert read.value == value or _bytes_of_old(read.value)
    assert set(read.imports) <= {"_codecs.encode", "builtins.bytes"}


def _bytes_of_old(found: Any) -> bool:
    """Protocol 2 writes b"" as a call of bytes()."""
    return "builtins" in repr(found)


@settings(deadline=None, max_examples=examples(100))
@given(plain, st.sampled_from([0, 1]))
def test_old_protocols(value: Any, protocol: int) -> None:
    assert read_pickle(pickle.dumps(value, protocol)).end


@every_protocol
def test_objects_are_nodes(protocol: int) -> None:
    point = read_pickle(pickle.dumps(Point({"a": [1]}), protocol))
    assert type(point.value) is ObjectNode
    assert attributes(point.value) == {"x": {"a": [1]}}
    assert any(name.endswith(".Point") for name in point.imports)
    if protocol >= 2:
        slotted = Slotted()
        slotted.x = 7
        read = read_pickle(pickle.dumps(slotted, protocol)).value
        assert attributes(read) == {"x": 7}
        named = read_pickle(pickle.dumps(Named(x=3), protocol)).value
        assert named.kwargs == {"x": 3} or protocol < 4


@every_protocol
def test_containers(protocol: int) -> None:
    value = {
        "ordered": collections.OrderedDict(a=1, b=2),
        "default": collections.defaultdict(list, {"k": [1]}),
        "counter": collections.Counter("aab"),
        "set": {1, 2},
        "frozen": frozenset({3}),
        "deque": collections.deque([1, 2]),
        "array": bytearray(b"ab"),
        "complex": 1 + 2j,
    }
    read = read_pickle(pickle.dumps(value, protocol)).value
    assert mapping(read["ordered"]) == {"a": 1, "b": 2}
    assert mapping(read["default"]) == {"k": [1]}
    assert mapping(read["counter"]) == {"a": 2, "b": 1}
    assert sorted(members(read["set"])) == [1, 2]
    assert members(read["frozen"]) == [3]
    assert members(read["deque"]) == [1, 2] or protocol < 2
    assert read["array"] == b"ab" or type(read["array"]) is ObjectNode
    assert mapping(7) == {}
    assert attributes([]) == {}
    assert members("ab") == []


def test_keys_that_are_not_hashed() -> None:
    nested = ((1, 2), 3)
    value = {nested: 1, (1, "a"): 2, 1 << 70: 3, frozenset({1}): 4, 2.5: 5, b"b": 6, None: 7}
    read = read_pickle(pickle.dumps(value)).value
    assert read[1, "a"] == 2
    assert (read[2.5], read[b"b"], read[None]) == (5, 6, 7)
    wrapped = {key.value: held for key, held in read.items() if type(key) is Key}
    assert wrapped == {nested: 1, 1 << 70: 3}
    assert [held for key, held in read.items() if type(key) is ObjectNode] == [4]


def test_what_contains_itself() -> None:
    value: list[Any] = []
    value.append(value)
    read = read_pickle(pickle.dumps(value)).value
    assert read[0] is read
    point = Point(None)
    point.x = point
    made = read_pickle(pickle.dumps(point)).value
    assert attributes(made)["x"] is made


def test_persistent_ids() -> None:
    class Pickler(pickle.Pickler):
        def persistent_id(self, found: Any) -> Any:
            return ("storage", "0") if isinstance(found, Point) else None

    for protocol in (2, 4):
        file = io.BytesIO()
        Pickler(file, protocol).dump([Point(1)])
        read = read_pickle(file.getvalue())
        (found,) = read.value
        assert type(found) is Persistent
        assert found.id == ("storage", "0")
        assert read.persistent == (found,)
    assert read_pickle(b"Pname\n.").value.id == "name"


def test_names_of_python_2_are_translated() -> None:
    assert read_pickle(b"c__builtin__\nset\n.").imports == ("builtins.set",)
    assert read_pickle(b"ccopy_reg\n_reconstructor\n.").imports == ("copyreg._reconstructor",)
    assert copyreg.__name__ == "copyreg"


def test_ordered_dictionaries_of_python_2() -> None:
    data = b"ccollections\nOrderedDict\n(](](U\x01aK\x01e](U\x01bK\x02eetR."
    assert mapping(read_pickle(data).value) == {"a": 1, "b": 2}


def test_text_opcodes() -> None:
    read = read_pickle(b"(I01\nI00\nI7\nL8L\nF1.5\nVa\\u00e9\nS'x'\np5\ng5\nl.").value
    assert read == [True, False, 7, 8, 1.5, "aé", "x", "x"]
    assert read_pickle(b"(lp0\nI1\na(dVa\nI2\nsa.").end
    assert read_pickle(b"T\x02\0\0\0\xff\xfe.").value == b"\xff\xfe"
    assert math.isinf(read_pickle(pickle.dumps(math.inf)).value)


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (b"\x82\x01.", "not-inspectable", "the opcode EXT1"),
        (b"\x83\x01\x00.", "not-inspectable", "the opcode EXT2"),
        (b"\x84\x01\0\0\0.", "not-inspectable", "the opcode EXT4"),
        (b"\x97.", "not-inspectable", "the opcode NEXT_BUFFER"),
        (b"N\x98.", "not-inspectable", "the opcode READONLY_BUFFER"),
        (b"\x80\x06N.", "not-inspectable", "protocol 6"),
        (b"\xff.", "damaged", "the byte 0xff"),
        (b"", "damaged", "ends in its middle"),
        (b"\x80", "damaged", "ends in its middle"),
        (b"X\xff\0\0\0a.", "damaged", "ends in its middle"),
        (b".", "damaged", "describes nothing"),
        (b"0.", "damaged", "what is not there"),
        (b"h\x05.", "damaged", "what is not there"),
        (b"q\x05.", "damaged", "what is not there"),
        (b"t.", "damaged", "what is not there"),
        (b"K\x01\x86.", "damaged", "what is not there"),
        (b"X\x02\0\0\0\xff\xff.", "damaged", "not UTF-8"),
        (b"Iabc\n.", "damaged", "malformed"),
        (b"K\x01K\x01a.", "damaged", "appends to what is no list"),
        (b"]K\x01K\x02s.", "damaged", "no dictionary"),
        (b"}(K\x01u.", "damaged", "no dictionary"),
        (b"K\x01K\x01R.", "damaged", "no tuple"),
        (b"K\x01K\x01\x93.", "damaged", "no text"),
        (b"K\x01K\x01b.", "not-inspectable", "BUILD"),
        (b"cos\nsystem\n}b.", "not-inspectable", "BUILD"),
        (b"cos\nsystem\n)R}b}b.", "not-inspectable", "BUILD"),
        (b"S'a\n.", "damaged", "not quoted"),
        (b"Sa", "damaged", "a line that does not end"),
        (b"\x8b\xff\xff\0\0" + bytes(65535) + b".", "not-inspectable", "a number of"),
        (b"c" + b"a" * 600 + b"\nb\n.", "not-inspectable", "overlong global"),
        (b"\x8e" + b"\0\0\0\0\x01\0\0\0" + b"a.", "damaged", "over the 16,777,216"),
        (b"L" + b"9" * 5000 + b"L\n.", "damaged", "does not end"),
    ],
)
def test_malformed(data: bytes, kind: str, text: str) -> None:
    error = refused(data)
    assert (error.kind, text in error.text) == (kind, True), error.text


def test_caps() -> None:
    assert "over the 67,108,864" in refused(bytes(LARGEST + 1)).text
    assert "more than a checkpoint" in refused(b"]" * 3_000_000 + b".").text


def test_every_opcode_of_python_is_known() -> None:
    known = {ord(opcode.code) for opcode in pickletools.opcodes}
    assert known == OPCODES.keys() | OUTSIDE.keys() | {STOP}


ALPHABET = [bytes([code]) for code in sorted(OPCODES)]
pieces = st.sampled_from(ALPHABET) | st.binary(max_size=6) | st.just(b"K\x01") | st.just(b"h\0")


@settings(deadline=None, max_examples=examples(1500), suppress_health_check=list(HealthCheck))
@given(st.lists(pieces, max_size=40))
def test_any_stream_of_opcodes_ends_in_an_answer(stream: list[bytes]) -> None:
    try:
        read_pickle(b"".join(stream) + b".")
    except CheckpointError as error:
        assert error.kind in ("damaged", "not-inspectable")


def test_globals_are_two_strings() -> None:
    found = read_pickle(b"cos\nsystem\n.").value
    assert (type(found), found.module, found.name, found.text) == (
        Global,
        "os",
        "system",
        "os.system",
    )
    assert found == Global("os", "system")
