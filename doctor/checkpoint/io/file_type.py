"""The type of a file by its first bytes, where it is not what its name says."""

from __future__ import annotations

import re
import tarfile

LOOK = 512
"""Bytes that are examined."""

_MAGIC = (
    (0, b"PK\x03\x04", "a zip archive, as torch.save writes"),
    (0, b"GGUF", "a GGUF file"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"\xfd7zXZ\0", "an xz archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"\x93NUMPY", "a numpy array"),
    (0, b"ftrt", "a TensorRT engine"),
    (0, b"Entry not found", 'the words "Entry not found", a download\'s error'),
    (0, b"Repository not found", 'the words "Repository not found", a download\'s error'),
    (0, b"Invalid username or password", "a download's refusal to log in"),
    (257, b"ustar", "a tar archive, as torch.save wrote before 0.1.10 and NeMo writes"),
    (4, b"TFL3", "a TensorFlow Lite model"),
)
"""Where the bytes are, the bytes, and what they are the beginning of."""


def describe_file_type(data: bytes) -> str | None:
    """ "a git-LFS pointer ...", or None where the first bytes are no known format's."""
    first = data[:LOOK]
    if is_pointer(first):
        return _pointer(first)
    if first.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "a web page, probably what a failed download answered"
    if re.match(rb'\s*\{\s*"(?:error|message|detail|errors)"\s*:', first):
        return "a download's error, in JSON"
    if re.match(rb"\x80[\x01-\x05]", first):
        return "a pickle, as torch.save wrote before 1.6"
    for at, magic, text in _MAGIC:
        if first[at : at + len(magic)] == magic:
            return text
    if len(first) == LOOK and not first.strip(b"\0"):
        return "zeros from its first byte on, as an unfinished download leaves"
    return None


def is_pointer(data: bytes) -> bool:
    """Whether a file is a git-LFS pointer, by its first bytes."""
    return data.startswith(b"version https://git-lfs")


def in_place_of_weights(first: bytes) -> str | None:
    """What lies under the name of a file that was not fetched or not written: a pointer, a web
    page, zeros; None for anything that could be the file itself."""
    found = describe_file_type(first)
    return found if found and found.startswith(_NO_FILE) else None


_NO_FILE = ("a git-LFS pointer", "a web page", "the words", "a download", "zeros")
"""Beginnings of descriptions of files that are never a checkpoint."""


def short_text(whole: bytes) -> str | None:
    """ "a text of 7 bytes", where that is all a file holds; None where it is longer or no text."""
    text = whole.decode("utf-8", "replace") if len(whole) <= LOOK else ""
    if not text or not all(each.isprintable() or each in "\t\r\n" for each in text):
        return None
    return None if "\ufffd" in text else f"a text of {len(whole):,} bytes"


def holds_weights(first: bytes) -> bool:
    """Whether a file begins as torch.save, safetensors or GGUF begin one, by its first bytes."""
    if first.startswith(b"PK\x03\x04"):
        return b"/data.pkl" in first[:LOOK] or b"/version" in first[:LOOK]
    header = int.from_bytes(first[:8], "little")
    safetensors = first[8:10] in (b'{"', b"{}") and header < 100_000_000
    return first.startswith((b"GGUF", _LEGACY)) or safetensors


_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"
"""The number with which torch.save began its files before 1.6."""


def is_tar(first: bytes) -> bool:
    """Whether a file begins with a tar archive's header, also one of the form without a magic."""
    if first[257:262] == b"ustar" or first[:16].rstrip(b"\0") in (b"sys_info", b"pickle"):
        return True
    try:
        tarfile.TarInfo.frombuf(first[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _pointer(first: bytes) -> str:
    size = re.search(rb"\nsize (\d{1,18})\n", first)
    behind = f" to {int(size[1]):,} bytes that were not fetched" if size else ""
    return f"a git-LFS pointer{behind}"
