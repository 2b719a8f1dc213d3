"""A directory the job writes to: doctor_side.place ROLE PATH named|assumed.

Only a named directory is written to: one small new file, which is then deleted. A directory that
does not exist is not created; its nearest existing parent is examined instead.
"""

import os
import re
import stat
import time
import uuid
from typing import Dict, Optional, Tuple

from .. import wire

SAMPLE = b"doctor" * 512


def main(role: str, path: str, naming: str) -> None:
    """Report each fact as soon as it is known: the next call may hang."""
    named = naming == "named"
    known: Dict[str, object] = {}

    def report(**facts: object) -> None:
        known.update(facts)
        wire.send(note={"place": facts})

    path = os.path.abspath(os.path.expanduser(path))
    report(filesystem=mount_type(path))
    with wire.stage("stat"):
        directory, error = nearest(path)
    if not error:
        report(exists=directory == path, nearest=directory)
    with wire.stage("realpath"):
        report(filesystem=mount_type(os.path.realpath(directory)))
    if error:
        report(writable=False, wrote=ended(error) if named else None)
    else:
        with wire.stage("statvfs"):
            report(**room(directory))
        with wire.stage("access"):
            report(writable=os.access(directory, os.W_OK | os.X_OK))
        if named and known["exists"]:
            report(wrote=write(directory))
    wire.send(answer={"place": known})


def nearest(path: str) -> Tuple[str, Optional[OSError]]:
    """The directory, or its nearest existing parent; and the error, if there is one."""
    while True:
        try:
            if stat.S_ISDIR(os.stat(path).st_mode):
                return path, None
            return path, NotADirectoryError("%s is a file, not a directory" % path)
        except FileNotFoundError:
            path = os.path.dirname(path)
        except OSError as error:
            return path, error


def room(directory: str) -> Dict[str, int]:
    """Bytes and inodes; omitted if the file system does not report them or has no blocks."""
    try:
        stats = os.statvfs(directory)
    except OSError:
        return {}
    facts = {"inodes": stats.f_files, "inodes_free": stats.f_favail}
    if stats.f_blocks:
        facts["total"] = stats.f_blocks * stats.f_frsize
        facts["free"] = stats.f_bavail * stats.f_frsize
    return facts


def write(directory: str) -> Dict[str, object]:
    """Create a new file, write, fsync, close and delete it."""
    path = os.path.join(directory, ".doctor-%d-%s" % (os.getpid(), uuid.uuid4().hex))
    started = time.perf_counter()
    try:
        with wire.stage("write"):
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        return ended(error, started)
    failure: Optional[OSError] = None
    try:
        fill(file)
    except OSError as error:
        failure = error
    try:
        with wire.stage("delete"):
            os.unlink(path)
    except OSError as error:
        failure = failure or error
    return ended(failure, started)


def fill(file: int) -> None:
    """Write the sample and wait until the disk has it."""
    try:
        with wire.stage("write"):
            if os.write(file, SAMPLE) < len(SAMPLE):
                raise OSError("only a part of %d bytes could be written" % len(SAMPLE))
        with wire.stage("fsync"):
            os.fsync(file)
    finally:
        os.close(file)


def ended(error: Optional[OSError], started: Optional[float] = None) -> Dict[str, object]:
    """The fields of `Ended`."""
    seconds = 0.0 if started is None else time.perf_counter() - started
    if error is None:
        return {"type": "Ended", "how": "ok", "seconds": seconds}
    detail = error.strerror or str(error)
    return {
        "type": "Ended",
        "how": "error",
        "detail": detail,
        "seconds": seconds,
        "code": error.errno,
    }


def mount_type(path: str) -> Optional[str]:
    """Type of the mount with the longest prefix of `path`; a later mount hides an earlier one."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            mounts = [line.split(" ") for line in lines]
    except OSError:
        return None
    kind, longest = None, 0
    for fields in mounts:
        point = re.sub(r"\\(\d{3})", lambda code: chr(int(code.group(1), 8)), fields[4])
        inside = (path + "/").startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest and "-" in fields:
            kind, longest = fields[fields.index("-") + 1], len(point)
    return kind
