"""Which files lie at the path named by the second argument, for other nodes to compare.

The answer is {"files": n, "bytes": n, "digest": hex, "place": hex}: the digest is over names,
sizes, times and samples, the place over inodes, which are equal only where nodes see one file
system. A process of its own, because a dead mount never answers.
"""

import hashlib
import os
from typing import Dict, Iterator, NoReturn, Tuple, Union

from .. import wire

SAMPLE = 64 << 10
"""Bytes at the head and at the tail of each file that are compared."""
MOST_FILES = 100_000


def main(path: str) -> None:
    try:
        with wire.stage("list %s" % path):
            wire.send(answer=identity(os.path.expanduser(path)))
    except OSError as error:
        wire.send(error=error.strerror or str(error), code=error.errno)


def identity(path: str) -> Dict[str, Union[int, str]]:
    """Of a file, or of all regular files below a directory. Raises OSError."""
    digest, place, files, total = hashlib.sha256(), hashlib.sha256(), 0, 0
    for name, file in _files(path):
        status = os.stat(file)
        fields = (os.fsencode(name), b"%d" % status.st_size, b"%d" % int(status.st_mtime))
        for part in fields + _samples(file, status.st_size):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        place.update(b"%d " % status.st_ino)
        files += 1
        total += status.st_size
        if files >= MOST_FILES:
            break
    return {
        "files": files,
        "bytes": total,
        "digest": digest.hexdigest()[:32],
        "place": place.hexdigest()[:32],
    }


def _files(path: str) -> Iterator[Tuple[str, str]]:
    """Names below the path and the files, in one order on all machines."""
    if not os.path.isdir(path):
        yield os.path.basename(path), path
        return
    for directory, names, files in os.walk(path, onerror=_raise):
        names.sort()
        for name in sorted(files):
            file = os.path.join(directory, name)
            if os.path.isfile(file):
                yield os.path.relpath(file, path), file


def _raise(error: OSError) -> NoReturn:
    raise error


def _samples(file: str, size: int) -> Tuple[bytes, bytes]:
    """The head and the tail; a pipe that took the file's place is not waited for."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.pread(descriptor, SAMPLE, 0), os.pread(descriptor, SAMPLE, max(0, size - SAMPLE))
    finally:
        os.close(descriptor)
