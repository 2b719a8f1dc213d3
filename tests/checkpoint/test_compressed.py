"""Compressed files beside good weights are judged by their content, or unknown where unread."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from judges import judge

from doctor.checkpoint.records import Checkpoint
from doctor.checkpoint.scan import scan
from doctor.judge.check import Status

np = pytest.importorskip("numpy")

CODE = judge("CKP010")

GOOD = b"\x80\x02}."
EVIL = b"\x80\x02cposix\ngetpid\n)R0}."

Pack = Callable[[bytes], bytes]
PACKED = [gzip.compress, bz2.compress, lzma.compress, zlib.compress]


def status(folder: Path, data: bytes) -> Status:
    """Of good weights with these bytes beside them."""
    from safetensors.numpy import save_file

    save_file({"layer.weight": np.ones((2, 2), np.float32) / 3}, folder / "model.safetensors")
    (folder / "pytorch_extra.bin").write_bytes(data)
    checkpoint = scan(str(folder))
    assert isinstance(checkpoint, Checkpoint)
    return CODE(checkpoint=checkpoint).status


@pytest.mark.parametrize("pack", PACKED)
def test_every_member_is_read(tmp_path: Path, pack: Pack) -> None:
    assert status(tmp_path, pack(b"") + pack(GOOD)) is Status.PASS
    assert status(tmp_path, pack(b"") * 3 + pack(EVIL)) is Status.FAIL
    assert status(tmp_path, pack(EVIL[:9]) + b"\0" * 9 + pack(EVIL[9:])) is Status.FAIL
    assert status(tmp_path, pack(b"") + b"\0" * (1 << 26) + pack(EVIL)) is Status.UNKNOWN


def test_members_without_end(tmp_path: Path) -> None:
    assert status(tmp_path, gzip.compress(b"") * 10_001 + gzip.compress(EVIL)) is Status.UNKNOWN


@pytest.mark.parametrize("pack", PACKED)
def test_what_lies_before_a_damage_is_judged(tmp_path: Path, pack: Pack) -> None:
    """A reader hands on what it unpacked before it finds that the file is damaged."""
    noise = np.random.default_rng(0).bytes(400_000)
    packed = bytearray(pack(EVIL + noise))
    packed[-5] ^= 0xFF
    assert status(tmp_path, bytes(packed)) is Status.FAIL
    packed = bytearray(pack(GOOD + noise))
    packed[-5] ^= 0xFF
    assert status(tmp_path, bytes(packed)) is Status.UNKNOWN
    assert status(tmp_path, bytes(packed[:-9])) is Status.UNKNOWN


def test_a_wrong_crc_of_a_short_file(tmp_path: Path) -> None:
    packed = gzip.compress(EVIL)
    assert status(tmp_path, packed[:-8] + bytes(8)) is Status.FAIL


def test_a_plain_pickle_that_begins_as_bzip2_does(tmp_path: Path) -> None:
    head = b"BZh\0\0" + b"-" * int.from_bytes(b"Zh", "little") + b"0"
    assert pickle.loads(head + EVIL[2:]) == {}
    assert status(tmp_path, head + EVIL[2:]) is Status.FAIL
    assert status(tmp_path, head + GOOD[2:]) is Status.PASS


def test_numbers_that_begin_as_compressed_files_do(tmp_path: Path) -> None:
    for first in (0x178, 93):
        numbers = np.arange(first, first + 900, dtype=np.int32)
        assert status(tmp_path, numbers.tobytes()) is Status.PASS


@pytest.mark.parametrize("magic", [b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd"])
def test_what_cannot_be_unpacked_is_unknown(tmp_path: Path, magic: bytes) -> None:
    assert status(tmp_path, magic + os.urandom(99)) is Status.UNKNOWN
    assert status(tmp_path, gzip.compress(magic + os.urandom(99))) is Status.UNKNOWN


@pytest.mark.parametrize("name", ["sys_info", "storages"])
@pytest.mark.parametrize("magic", [True, False])
def test_a_tar_archive_is_unknown(tmp_path: Path, name: str, magic: bool) -> None:
    """torch.load unpickles what torch.save wrote into tar archives before 0.1.10."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        member = tarfile.TarInfo(name)
        member.size = len(EVIL)
        archive.addfile(member, io.BytesIO(EVIL))
    data = bytearray(buffer.getvalue())
    if not magic:
        total = sum(data[:148]) + 8 * 32 + sum(data[156:257]) + sum(data[265:512])
        data[257:265] = bytes(8)
        data[148:156] = b"%06o\0 " % total
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            assert archive.getnames() == [name]
    assert status(tmp_path, bytes(data)) is Status.UNKNOWN
