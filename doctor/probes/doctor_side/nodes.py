"""GPUs that the NVIDIA driver holds and NVML does not list: whether this process may open them.

The node of a GPU that belongs to another job is refused at once; one that opens, or that fails in
the driver, is a GPU of this machine that did not start. Opening may start the GPU, so that only
those are opened that NVML left out.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Dict, Iterable

HELD = "proc/driver/nvidia/gpus"
MINOR = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)


def address(bus_id: str) -> str:
    """NVML's "00000000:3B:00.0" as the system spells it: "0000:3b:00.0"."""
    domain, _, rest = bus_id.lower().partition(":")
    return "%s:%s" % (domain[-4:], rest)


def unlisted(bus_ids: Iterable[str], root: str = "/") -> Dict[str, str]:
    """Address -> why its device node does not open, "" if it does."""
    listed = {address(each) for each in bus_ids}
    try:
        held = sorted(os.listdir(os.path.join(root, HELD)))
    except OSError:
        return {}
    return {each: _error(root, each) for each in held if each.lower() not in listed}


def _error(root: str, name: str) -> str:
    try:
        with open(os.path.join(root, HELD, name, "information"), encoding="utf-8") as file:
            minor = MINOR.search(file.read())
        if minor is None:
            return "its number is not known"
        node = "dev/nvidia" + minor[1]
        os.close(os.open(os.path.join(root, node), os.O_RDWR | os.O_NONBLOCK))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "") or str(error)
    return ""
