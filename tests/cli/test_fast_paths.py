"""What is done fast says the same as what is done with care."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.safetensors import _carefully, _quickly, _tensors

ENTRY = '{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}'

HEADERS = [
    f'{{"a":{ENTRY}}}',
    f'{{"__metadata__":{{"format":"pt"}},"a":{ENTRY},"b":{ENTRY}}}   ',
    f'{{"__metadata__":{{}},"a":{ENTRY}}}',
]

STRANGE = [
    f'{{"a":{ENTRY},"a":{ENTRY}}}',
    f'{{"a":{ENTRY},"\\u0061":{ENTRY}}}',
    f'{{"__metadata__":{{"k":"1","k":"2"}},"a":{ENTRY}}}',
    f'{{"__metadata__":{{}},"__metadata__":{ENTRY}}}',
    f'{{"a":{ENTRY},"__metadata__":{{"format":"pt"}}}}',
    f'{{"__metadata__":{{"k":1}},"a":{ENTRY}}}',
    '{"__metadata__":{},}',
    '{"__metadata__":{}}',
    '{"__metadata__":null}',
    "{}",
    f'{{"a":{ENTRY[:-1]},"dtype":"F32"}}}}',
    f'{{"a":{ENTRY[:-1]},"more":1}}}}',
    '{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}',
    '{"a":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}}',
    '{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}',
    '{"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}}',
    f'{{"x:y":{ENTRY}}}',
    f'{{"é":{ENTRY}}}',
    '{"a":{"dtype":"F32","shape":[' + ",".join(["1"] * 100) + '],"data_offsets":[0,4]}}',
]


def read(text: bytes, way: Callable[[bytes], Any]) -> object:
    """Metadata and tensors; None where the header is refused."""
    try:
        metadata, header = way(text)
        return metadata, _tensors(header, "file", 8)
    except CheckpointError:
        return None


def agree(text: bytes) -> None:
    """The fast way answers as the careful one does, or leaves the answer to it."""
    if _quickly(text) is not None:
        assert read(text, _quickly) == read(text, _carefully), text


@pytest.mark.parametrize("text", HEADERS)
def test_a_header_of_the_library_is_read_fast(text: str) -> None:
    assert _quickly(text.encode()) is not None
    assert read(text.encode(), _quickly) == read(text.encode(), _carefully)


@pytest.mark.parametrize("text", STRANGE)
def test_a_strange_header_is_never_read_otherwise(text: str) -> None:
    agree(text.encode())


def test_two_entries_of_one_name_are_always_seen() -> None:
    for text in STRANGE[:4]:
        assert _quickly(text.encode()) is None


def test_no_changed_byte_makes_a_difference() -> None:
    chance = random.Random(0)
    for _ in range(20_000):
        text = bytearray(chance.choice(HEADERS + STRANGE).encode())
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(text) + 1)
            change = chance.choice('{}[]",:0123456789ax \\-.').encode()
            text[place : place + chance.randint(0, 2)] = change * chance.randint(0, 2)
        agree(bytes(text))


@settings(deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=4)
        | st.just(json.loads(ENTRY)),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(("__metadata__", "a", "dtype", "shape")), inner, max_size=3
            )
        ),
    )
)
def test_no_json_makes_a_difference(value: object) -> None:
    agree(json.dumps(value).encode())
    agree(json.dumps({"a": json.loads(ENTRY), "b": value}).encode())
