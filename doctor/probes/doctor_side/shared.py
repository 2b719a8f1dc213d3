"""A file that shows whether nodes see one directory: doctor_side.shared DO PATH NAME TEXT.

DO is write, read or remove; the answer is {"text": content}. PATH was named by the user.
"""

import os
import re

from .. import wire

NAME = re.compile(r"\.doctor-shared-[0-9a-f]{32}")
MOST = 256


def main(do: str, path: str, name: str, text: str) -> None:
    if not NAME.fullmatch(name):
        wire.send(error="not a name of the doctor's: %r" % name)
        return
    file = os.path.join(os.path.abspath(os.path.expanduser(path)), name)
    try:
        with wire.stage("%s %s" % (do, path)):
            wire.send(answer={"text": DO[do](file, text)})
    except OSError as error:
        wire.send(error=error.strerror or str(error), code=error.errno)


def write(file: str, text: str) -> str:
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o644)
    try:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return text


def read(file: str, text: str) -> str:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.read(descriptor, MOST).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def remove(file: str, text: str) -> str:
    os.unlink(file)
    return ""


DO = {"write": write, "read": read, "remove": remove}
