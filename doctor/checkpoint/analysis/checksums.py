"""Checksums that are kept with the files: SHA-256 of the Hugging Face Hub and of lists beside the
files, CRC-32 of zips.

The cache names a large file's blob by its SHA-256 (the one of its LFS pointer); a download into a
directory of the user's keeps it in .cache/huggingface/download/FILE.metadata.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.torch_zip import ZIP, Record, payload, read_entries
from doctor.checkpoint.io.files import Directory, LocalDirectory, Source, read_whole
from doctor.checkpoint.layouts.hints import DOWNLOADS

BLOCK = 1 << 20
"""Bytes that are read at once."""

MOST = 4096
"""Bytes of a .metadata file: three short lines."""

MOST_LISTED, MOST_LISTS = 1 << 20, 100
"""Bytes of a list of checksums, and lists of a directory."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
LISTS = re.compile(
    r"(?:sha256sums?|checksums?)(?:\.txt|\.sha256)?|.+\.sha256(?:sums?)?", re.IGNORECASE
)
"""Names of files as sha256sum writes and reads them."""
LINE = re.compile(r"([0-9a-fA-F]{64})[ \t]+\*?(?:\./)?([^/\s]{1,255})")


def differing_files(directory: Directory, files: Iterable[str], threads: int) -> dict[str, bool]:
    """File -> whether it differs from what the Hub has, for those whose SHA-256 is known here."""
    if not isinstance(directory, LocalDirectory):
        return {}
    expected = ((file, _expected(directory, file)) for file in files)
    return _differing(directory, {file: digest for file, digest in expected if digest}, threads)


def unlike_lists(directory: Directory, files: Iterable[str], threads: int) -> list[str]:
    """Files whose SHA-256 is not the one in a list beside them, such as SHA256SUMS."""
    if not isinstance(directory, LocalDirectory):
        return []
    listed = dict(_listed(directory))
    known = {f: listed[f] for f in files if f in listed and not _expected(directory, f)}
    return [file for file, differs in _differing(directory, known, threads).items() if differs]


def _listed(directory: LocalDirectory) -> Iterator[tuple[str, str]]:
    with contextlib.suppress(CheckpointError, ValueError, OSError):
        for name in islice(filter(LISTS.fullmatch, directory.names()), MOST_LISTS):
            text = read_whole(directory, name, MOST_LISTED).decode("utf-8", "replace")
            for match in filter(None, map(LINE.fullmatch, map(str.strip, text.splitlines()))):
                yield match[2], match[1].lower()


def _differing(directory: Directory, known: dict[str, str], threads: int) -> dict[str, bool]:
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        digests = pool.map(lambda file: _sha256(directory, file), known)
    return {
        file: digest != known[file]
        for file, digest in zip(known, digests, strict=True)
        if digest is not None
    }


def _expected(directory: LocalDirectory, file: str) -> str | None:
    """The SHA-256 that the Hub gave, None where that is not known."""
    with contextlib.suppress(OSError, ValueError):
        blob = (directory.path / file).readlink()
        if blob.parent.name == "blobs" and _SHA256.fullmatch(blob.name):
            return blob.name
    return _of_download(directory, file)


def _of_download(directory: LocalDirectory, file: str) -> str | None:
    """By the .metadata of a download: the commit, the etag, and when it was written."""
    with contextlib.suppress(CheckpointError, ValueError, OSError):
        data = read_whole(directory, f"{DOWNLOADS}/{file}.metadata", MOST)
        _, etag, written = data.decode("ascii").split()
        changed = (directory.path / file).stat().st_mtime > float(written) + 1
        return etag if _SHA256.fullmatch(etag) and not changed else None
    return None


def _sha256(directory: Directory, file: str) -> str | None:
    digest = hashlib.sha256()
    try:
        with directory.open(file) as source:
            for at in range(0, source.size, BLOCK):
                digest.update(source.read(BLOCK, at))
    except CheckpointError:
        return None
    return digest.hexdigest()


def damaged_records(directory: Directory, files: Iterable[str]) -> Iterator[str]:
    """Records of torch's zips whose bytes do not have the CRC-32 of the zip's directory.

    Zips of files that are written without checksums (torch.serialization.set_crc32_options) have
    one value for all of their records, and are left out.
    """
    for file in sorted(files):
        with contextlib.suppress(CheckpointError), directory.open(file) as source:
            if source.read(4, 0) != ZIP:
                continue
            entries = [(name, record) for name, record in read_entries(source) if record.size]
            if len({record.crc for _, record in entries}) < 2 or len(entries) < 2:
                continue
            for name, record in entries:
                if not _has_checksum(source, record):
                    yield f"{shown(name)} of {shown(file)}"


def _has_checksum(source: Source, record: Record) -> bool:
    """Whether the bytes of a record that is not compressed have its CRC-32."""
    if record.method or not record.crc:
        return True
    begin, crc = payload(source, record), 0
    for at in range(begin, begin + record.size, BLOCK):
        crc = zlib.crc32(source.read(min(BLOCK, begin + record.size - at), at), crc)
    return crc == record.crc
