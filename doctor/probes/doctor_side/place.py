"""A folder the job writes to: python place.py FD ROLE PATH named|assumed.

Only a named folder is written to: one small file of its own making, which is deleted. A folder
that does not exist is not made; its nearest existing parent is looked at instead.
"""

import os
import re
import stat
import sys
import time
import uuid
from typing import Any, Dict, Optional, Tuple

import wire

SAMPLE = b"doctor" * 512


def main(path: str, named: bool) -> None:
    """Tell each fact as soon as it is known: the next call may hang."""
    known: Dict[str, Any] = {}

    def learn(**facts: Any) -> None:
        known.update(facts)
        wire.tell(note={"place": facts})

    path = os.path.abspath(os.path.expanduser(path))
    learn(filesystem=mount_type(path))
    with wire.stage("stat"):
        folder, trouble = nearest(path)
    if not trouble:
        learn(exists=folder == path, nearest=folder)
    with wire.stage("realpath"):
        learn(filesystem=mount_type(os.path.realpath(folder)))
    if trouble:
        learn(writable=False, wrote=ended(trouble) if named else None)
    else:
        with wire.stage("statvfs"):
            learn(**room(folder))
        with wire.stage("access"):
            learn(writable=os.access(folder, os.W_OK | os.X_OK))
        if named and known["exists"]:
            learn(wrote=write(folder))
    wire.tell(answer={"place": known})


def nearest(path: str) -> Tuple[str, Optional[OSError]]:
    """The folder, or its nearest parent that exists; and what is wrong with that."""
    while True:
        try:
            if stat.S_ISDIR(os.stat(path).st_mode):
                return path, None
            return path, NotADirectoryError("%s is a file, not a folder" % path)
        except FileNotFoundError:
            path = os.path.dirname(path)
        except OSError as error:
            return path, error


def room(folder: str) -> Dict[str, Any]:
    """Bytes and inodes; a file system that will not tell, or has no blocks, leaves them out."""
    try:
        told = os.statvfs(folder)
    except OSError:
        return {}
    facts = {"inodes": told.f_files, "inodes_free": told.f_favail}
    if told.f_blocks:
        facts["total"] = told.f_blocks * told.f_frsize
        facts["free"] = told.f_bavail * told.f_frsize
    return facts


def write(folder: str) -> Dict[str, Any]:
    """Make a file that was not there, write, fsync, close and delete it."""
    path = os.path.join(folder, ".doctor-%d-%s" % (os.getpid(), uuid.uuid4().hex))
    began = time.perf_counter()
    try:
        with wire.stage("write"):
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        return ended(error, began)
    trouble: Optional[OSError] = None
    try:
        fill(file)
    except OSError as error:
        trouble = error
    try:
        with wire.stage("delete"):
            os.unlink(path)
    except OSError as error:
        trouble = trouble or error
    return ended(trouble, began)


def fill(file: int) -> None:
    """Write the sample and wait until the disk has it."""
    try:
        with wire.stage("write"):
            if os.write(file, SAMPLE) < len(SAMPLE):
                raise OSError("the file took a part of %d bytes only" % len(SAMPLE))
        with wire.stage("fsync"):
            os.fsync(file)
    finally:
        os.close(file)


def ended(trouble: Optional[OSError], began: Optional[float] = None) -> Dict[str, Any]:
    """A record of sections.Ended."""
    seconds = 0.0 if began is None else time.perf_counter() - began
    if trouble is None:
        return {"type": "Ended", "how": "ok", "seconds": seconds}
    detail = trouble.strerror or str(trouble)
    return {
        "type": "Ended",
        "how": "error",
        "detail": detail,
        "seconds": seconds,
        "code": trouble.errno,
    }


def mount_type(path: str) -> Optional[str]:
    """Type of the mount with the longest prefix of `path`; a later mount hides an earlier one."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            mounts = [line.split(" ") for line in lines]
    except OSError:
        return None
    found, longest = None, 0
    for fields in mounts:
        point = re.sub(r"\\(\d{3})", lambda code: chr(int(code.group(1), 8)), fields[4])
        inside = (path + "/").startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest and "-" in fields:
            found, longest = fields[fields.index("-") + 1], len(point)
    return found


if __name__ == "__main__":
    main(sys.argv[3], sys.argv[4] == "named")
