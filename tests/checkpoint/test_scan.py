"""The reader of safetensors, against the library that defines the format."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor._util.units import shown
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.formats.safetensors import read_shard
from doctor.checkpoint.io.files import LocalFile
from doctor.checkpoint.records import Checkpoint, Problem
from doctor.checkpoint.scan import scan

ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
TWO = {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}


def written(header: Any, data: bytes = b"") -> bytes:
    """A safetensors file around a header, which may be text that is no JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def checked(tmp_path: Path, content: bytes) -> Checkpoint:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    found = scan(str(path))
    assert isinstance(found, Checkpoint)
    return found


def only(found: Checkpoint) -> Problem:
    assert len(found.problems) == 1, found.problems
    return found.problems[0]


def test_a_file_of_the_library_reads(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    tensors = {
        "a.weight": torch.ones(3, 4, dtype=torch.bfloat16),
        "b": torch.zeros(0, 7),
        "c": torch.tensor(3, dtype=torch.int64),
        "norm.weight": torch.ones(5, dtype=torch.float16),
    }
    save_file(tensors, str(tmp_path / "model.safetensors"), {"format": "pt"})
    found = scan(str(tmp_path))
    assert isinstance(found, Checkpoint)
    assert found.problems == ()
    assert found.contents.tensors == 4
    assert found.contents.parameters == 18
    assert found.contents.dtypes == {"I64": 8, "BF16": 24, "F16": 10, "F32": 0}
    assert [(norm.name, norm.size, norm.value) for norm in found.contents.norms] == [
        ("norm.weight", 5, "ones")
    ]
    assert (
        found.files.bytes == found.files.largest == (tmp_path / "model.safetensors").stat().st_size
    )


def test_every_dtype_of_the_library_is_known(tmp_path: Path) -> None:
    """A file of each dtype that the library takes has no problem, and its sizes are checked."""
    from safetensors import deserialize

    for dtype, bits in BITS.items():
        entry = {"dtype": dtype, "shape": [8], "data_offsets": [0, bits]}
        whole = written({"x": entry}, bytes(bits))
        assert len(deserialize(whole)) == 1
        assert checked(tmp_path, whole).problems == (), dtype
        longer = written({"x": {**entry, "data_offsets": [0, bits + 1]}}, bytes(bits + 1))
        assert only(checked(tmp_path, longer)).kind == "damaged", dtype


def test_ranges_are_those_of_the_file(tmp_path: Path) -> None:
    """The bytes at each tensor's range are the tensor's."""
    import numpy
    from safetensors.numpy import save_file

    tensors = {f"t.{n}": numpy.arange(n, n + 5, dtype=numpy.int32) for n in range(7)}
    save_file(tensors, str(tmp_path / "m.safetensors"))
    data = (tmp_path / "m.safetensors").read_bytes()
    descriptor = os.open(tmp_path / "m.safetensors", os.O_RDONLY)
    shard = read_shard(LocalFile(descriptor, len(data)), "m.safetensors")
    os.close(descriptor)
    assert len(shard.tensors) == 7
    for tensor in shard.tensors:
        assert data[tensor.begin : tensor.end] == tensors[tensor.name].tobytes()


WRONG_HEADERS = {
    "hole": ({"a": ONE, "b": {**TWO, "data_offsets": [9, 13]}}, 13, "hole of 1 bytes before b"),
    "overlap": ({"a": ONE, "b": {**TWO, "data_offsets": [6, 10]}}, 10, "overlap, in b"),
    "same extent": ({"a": ONE, "b": ONE}, 8, "overlap, in b"),
    "shape": ({"a": {**ONE, "shape": [3]}}, 8, "does not fit its shape"),
    "negative offset": ({"a": {**ONE, "data_offsets": [-8, 0]}}, 8, "dtype, shape and offsets"),
    "backward": ({"a": {**ONE, "data_offsets": [8, 0]}}, 8, "offsets that are no range"),
    "three offsets": ({"a": {**ONE, "data_offsets": [0, 4, 8]}}, 8, "offsets that are no range"),
    "overflow": ({"a": {**ONE, "shape": [2**40, 2**40]}}, 8, "more than 2^63"),
    "float shape": ({"a": {**ONE, "shape": [2.0]}}, 8, "dtype, shape and offsets"),
    "bool shape": ({"a": {**ONE, "shape": [True, 2]}}, 8, "dtype, shape and offsets"),
    "text shape": ({"a": {**ONE, "shape": "2"}}, 8, "dtype, shape and offsets"),
    "dtype": ({"a": {**ONE, "dtype": 7}}, 8, "dtype, shape and offsets"),
    "entry": ({"a": [1, 2]}, 8, "dtype, shape and offsets"),
    "odd F4": ({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}, 2, "does not fit"),
    "metadata": ({"__metadata__": {"n": 1}, "a": ONE}, 8, "does not map text to text"),
    "cut short": ({"a": ONE}, 5, "is cut short"),
    "trailing": ({"a": ONE}, 30, "22 bytes behind its last tensor"),
    "duplicate": (
        b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},'
        b'"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
        8,
        "names a twice",
    ),
    "leading space": (
        b'  {"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
        8,
        "does not begin with {",
    ),
    "list": (b"[]", 0, "does not begin with {"),
    "not JSON": (b'{"a":', 0, "not valid JSON"),
    "NaN": (b'{"a":NaN}', 0, "not valid JSON"),
    "UTF-8": (b'{"\xff":1}', 0, "not UTF-8"),
    "deep": (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", 0, "nested too deeply"),
    "half a character": (
        b'{"\\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
        8,
        "half a character",
    ),
    "long number": (b'{"a":' + b"9" * 5000 + b"}", 0, "not valid JSON"),
}


@pytest.mark.parametrize(("header", "size", "text"), WRONG_HEADERS.values(), ids=WRONG_HEADERS)
def test_a_damaged_file_is_named(tmp_path: Path, header: Any, size: int, text: str) -> None:
    problem = only(checked(tmp_path, written(header, bytes(size))))
    assert problem.kind == "damaged"
    assert text in problem.text


def test_an_unknown_dtype(tmp_path: Path) -> None:
    found = checked(tmp_path, written({"a": {**ONE, "dtype": "U3"}}, bytes(8)))
    assert only(found).kind == "unknown-dtype"
    assert "U3" in only(found).text
    assert found.contents.tensors == 1


def test_a_tensor_cannot_claim_more_elements_than_bits(tmp_path: Path) -> None:
    entry = {**ONE, "dtype": "U3", "shape": [2**62]}
    assert only(checked(tmp_path, written({"a": entry}, bytes(8)))).kind == "damaged"


POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 4976698672\n"
)
DISGUISED = {
    "pointer": (POINTER, "git-LFS pointer to 4,976,698,672 bytes"),
    "page": (b"<!DOCTYPE html>\n<html><body>404</body></html>", "web page"),
    "page in lower case": (b"\n <html><body>sign in</body></html>", "web page"),
    "zip": (b"PK\x03\x04\x00\x00\x08\x08\x00\x00" + bytes(600), "zip archive"),
    "pickle": (b"\x80\x02}q\x00X\x05\x00\x00\x00helloq\x01K\x01s.", "pickle"),
    "gguf": (b"GGUF\x03\x00\x00\x00" + bytes(600), "GGUF"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(600), "HDF5"),
    "not found": (b"Entry not found", "Entry not found"),
    "zeros": (bytes(4096), "zeros from its first byte"),
}


@pytest.mark.parametrize(("content", "text"), DISGUISED.values(), ids=DISGUISED)
def test_a_disguise_is_named_as_what_it_is(tmp_path: Path, content: bytes, text: str) -> None:
    problem = only(checked(tmp_path, content))
    assert problem.kind == "disguised"
    assert text in problem.text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty"),
        (b"abc", "has 3 bytes"),
        (struct.pack("<Q", 50) + b'{"a"', "says that its header has 50 bytes; the file has 12"),
        (struct.pack("<Q", 0) + b"rest", "does not begin with {"),
    ],
)
def test_a_header_that_is_not_there(tmp_path: Path, content: bytes, text: str) -> None:
    assert text in only(checked(tmp_path, content)).text


def sparse(path: Path, length: int, start: bytes, size: int) -> None:
    with path.open("wb") as file:
        file.write(struct.pack("<Q", length) + start)
        file.truncate(size)


def test_a_huge_declared_header_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for length, start, kind in (
        (3 << 30, b"", "damaged"),
        (3 << 30, b"{", "over-limit"),
        ((1 << 64) - 1, b"{", "damaged"),
    ):
        sparse(path, length, start, 4 << 30)
        began = time.process_time()
        found = scan(str(path))
        assert time.process_time() - began < 1
        assert isinstance(found, Checkpoint)
        assert only(found).kind == kind


def test_a_header_over_the_librarys_limit_is_not_called_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    sparse(path, 100_000_001, b"{", 200_000_000)
    found = scan(str(path))
    assert isinstance(found, Checkpoint)
    assert "over the safetensors library's limit of 100,000,000" in only(found).text


names = st.text(max_size=12) | st.sampled_from(["__metadata__", "norm.weight", "a"])
sizes = st.integers(-2, 40) | st.floats() | st.none() | st.integers()
entries = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from([*BITS, "U3", ""]) | st.none(),
        "shape": st.lists(sizes, max_size=3) | st.text(max_size=2),
        "data_offsets": st.lists(sizes, max_size=3),
        "more": st.none(),
    },
)
headers = st.dictionaries(names, entries | st.dictionaries(names, names, max_size=2), max_size=4)


@settings(max_examples=examples(300))
@given(header=headers, size=st.integers(0, 64))
def test_any_header_is_refused_where_the_library_refuses_it(
    tmp_path: Path, header: Any, size: int
) -> None:
    agrees(tmp_path, written(header, bytes(size)))


GOOD = written(
    {
        "__metadata__": {"format": "pt"},
        "layers.0.norm.weight": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]},
        "layers.1.norm.weight": {"dtype": "BF16", "shape": [4], "data_offsets": [8, 16]},
        "w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [16, 32]},
    },
    b"\x80\x3f" * 8 + bytes(16),
)


@settings(max_examples=examples(500))
@given(
    flips=st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=4),
    end=st.integers(0, len(GOOD) + 3),
)
def test_flipped_bytes_and_cut_files(
    tmp_path: Path, flips: list[tuple[int, int]], end: int
) -> None:
    data = bytearray(GOOD)
    for place, value in flips:
        data[place] = value
    agrees(tmp_path, (bytes(data) + b"abc")[:end] if end < len(GOOD) else bytes(data))


def agrees(tmp_path: Path, content: bytes) -> None:
    """What the library refuses is a problem here, and nothing here is a traceback."""
    from safetensors import SafetensorError, deserialize

    try:
        deserialize(content)
    except SafetensorError:
        taken = False
    else:
        taken = True
    found = checked(tmp_path, content)
    assert taken or found.problems, content
    for problem in found.problems:
        assert problem.text.isprintable()


def test_names_are_data(tmp_path: Path) -> None:
    """A name with control characters or of a million letters prints as one short line."""
    entry = {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}
    for name in ("\x1b[2Jwiped\n", "x" * 1_000_000, "\u202egnp"):
        text = only(checked(tmp_path, written({name: entry}, bytes(8)))).text
        assert text.isprintable()
        assert len(text) < 400
    assert shown("a\x1bb") == "a\\x1bb"
