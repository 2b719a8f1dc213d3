"""Sealed messages: what is changed, replayed or too large is refused before it is read."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor._util.errors import UserError
from doctor.facts.fleet import SUMMARY_BYTES
from doctor.fleet import messages
from doctor.fleet.meeting import RankZero
from doctor.fleet.member import Member
from doctor.fleet.messages import Echo, Hello, MessageError, Result, Seal, read_key

SEAL = Seal(b"k" * 32, "77.3", 1, "nonce")
DATA = SEAL.close("hello", 3, 0, Hello(nonce="n", node="gpu-3", version="1"))


def test_a_message_is_read_as_it_was_written() -> None:
    assert SEAL.open(DATA, "hello", 3, 0, Hello) == Hello(nonce="n", node="gpu-3", version="1")


@pytest.mark.parametrize(
    ("seal", "where"),
    [
        (replace(SEAL, key=b"x" * 32), ("hello", 3, 0)),
        (replace(SEAL, key=b""), ("hello", 3, 0)),
        (replace(SEAL, job="77.4"), ("hello", 3, 0)),
        (replace(SEAL, restart=2), ("hello", 3, 0)),
        (replace(SEAL, nonce="of another run of the same job"), ("hello", 3, 0)),
        (SEAL, ("result", 3, 0)),
        (SEAL, ("hello", 2, 0)),
        (SEAL, ("hello", 3, 1)),
    ],
)
def test_a_message_of_another_key_run_round_or_node_is_refused(seal: Seal, where: Any) -> None:
    with pytest.raises(MessageError, match="another"):
        seal.open(DATA, *where, Hello)


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused(position: int, by: int) -> None:
    changed = bytearray(DATA)
    changed[position] ^= by
    with pytest.raises(MessageError):
        SEAL.open(bytes(changed), "hello", 3, 0, Hello)


@given(st.binary(max_size=200))
def test_garbage_is_refused_in_one_line(data: bytes) -> None:
    open_seal = replace(SEAL, key=b"")
    sealed = open_seal._mac("hello", 3, 0, data) + data
    for each in (data, sealed):
        with pytest.raises(MessageError) as caught:
            open_seal.open(each, "hello", 3, 0, Hello)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "payload",
    [
        zlib.compress(b" " * (messages.MOST_UNPACKED + 1)),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b'{"nonce": 1}'),
        zlib.compress(b'{"nonce": "a", "more": 1}'),
        zlib.compress(b'{"nonce": "\xff"}'),
        zlib.compress(b'{"nonce": "a"}') + b"rest",
        zlib.compress(b'{"nonce": "a"}')[:-3],
    ],
)
def test_a_sealed_message_that_is_no_record_is_refused(payload: bytes) -> None:
    data = SEAL._mac("welcome", 0, 3, payload) + payload
    with pytest.raises(MessageError):
        SEAL.open(data, "welcome", 0, 3, Echo)


def test_what_is_too_large_is_neither_sent_nor_read() -> None:
    large = Result(failed=bytes(range(32, 127)).decode() * 10 + "x")
    noise = msgspec.Raw(msgspec.json.encode(list(range(3_000_000))))
    assert SEAL.close("result", 1, 0, large)
    with pytest.raises(MessageError, match="at most"):
        SEAL.close("result", 1, 0, Result(content=noise))
    with pytest.raises(MessageError, match="no message"):
        SEAL.open(b"x" * (messages.MOST_BYTES + 1), "result", 1, 0, Result)


def test_what_is_refused_for_its_size_unpacked_is_not_sent() -> None:
    zeros = msgspec.Raw(b" " * messages.MOST_UNPACKED)
    with pytest.raises(MessageError, match="at most"):
        SEAL.close("result", 1, 0, Result(content=zeros))


def test_rank_zero_keeps_no_result_that_is_larger_than_a_summary() -> None:
    rank_zero = RankZero(Member(nodes=3), b"", "no-python", 0.0)
    for rank, size in ((1, SUMMARY_BYTES), (2, SUMMARY_BYTES + 1)):
        rank_zero.gathered.hellos[rank] = Hello(nonce="n", node=f"n{rank}", version="1")
        result = Result(content=msgspec.Raw(b"1" * size))
        data = rank_zero._seal.close("result", rank, 0, result)
        rank_zero._accept_result(rank, data, {})
    assert set(rank_zero.gathered.results) == {1}
    assert f"at most {SUMMARY_BYTES:,} allowed" in rank_zero.gathered.refused[2]


def test_the_key_is_read_from_a_private_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("0123456789abcdef\n")
    file.chmod(0o600)
    variable = {messages.SECRET: "0123456789abcdef"}
    assert read_key(file, {}) == read_key(None, variable) != b""
    assert read_key(None, {}) == b""
    file.chmod(0o640)
    with pytest.raises(UserError, match="chmod 600"):
        read_key(file, {})
    with pytest.raises(UserError, match="at least 16"):
        read_key(None, {messages.SECRET: "short"})
    with pytest.raises(UserError, match="No such file"):
        read_key(tmp_path / "absent", {})
