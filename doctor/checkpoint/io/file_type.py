"""The type of a file by its first bytes, where it is not what its name says."""

from __future__ import annotations

import re

LOOK = 512
"""Bytes that are examined."""

_MAGIC = (
    (b"PK\x03\x04", "a zip archive, as torch.save writes"),
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"Entry not found", 'the words "Entry not found", a download\'s error'),
    (b"Repository not found", 'the words "Repository not found", a download\'s error'),
    (b"Invalid username or password", "a download's refusal to log in"),
)


def describe_file_type(data: bytes) -> str | None:
    """ "a git-LFS pointer ...", or None where the first bytes are no known format's."""
    first = data[:LOOK]
    if first.startswith(b"version https://git-lfs"):
        return _pointer(first)
    if first.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "a web page, probably what a failed download answered"
    if re.match(rb"\x80[\x01-\x05]", first):
        return "a pickle, as torch.save wrote before 1.6"
    for magic, text in _MAGIC:
        if first.startswith(magic):
            return text
    if len(first) == LOOK and not first.strip(b"\0"):
        return "zeros from its first byte on, as an unfinished download leaves"
    return None


def _pointer(first: bytes) -> str:
    size = re.search(rb"\nsize (\d{1,18})\n", first)
    behind = f" to {int(size[1]):,} bytes that were not fetched" if size else ""
    return f"a git-LFS pointer{behind}"
