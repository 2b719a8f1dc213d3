"""Libraries of a driver that hang, and the command with deadlines that pass at once then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

IMPATIENT = """
import os, sys, time
from doctor.cli.main import main
from doctor.collect.child import Child

plain = Child._next

def impatient(child, deadline):
    while True:
        hangs = os.path.exists(f"{os.environ['HANGS']}{child._process.pid}")
        message = plain(child, 0.0 if hangs else min(deadline, time.monotonic() + 0.1))
        in_time = getattr(message, "how", "") != "timeout" or time.monotonic() > deadline
        if hangs or in_time:
            return message

Child._next = impatient
sys.exit(main())
"""
"""The command, with deadlines that pass as soon as a probe hangs."""
PROGRAM = [sys.executable, "-c", IMPATIENT]
SOURCE = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void hang(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s%d", getenv("HANGS"), (int)getpid());
    close(open(path, O_WRONLY | O_CREAT, 0600));
    /* The parent of a vfork waits in the kernel, in state D. */
    if (getenv("HANGS_IN_KERNEL") && vfork() == 0) for (;;) pause();
    for (;;) pause();
}
"""
LIBRARIES = ("cuda", "nvidia-ml")


def build(folder: Path, *names: str) -> dict[str, str]:
    """Libraries that hang when they are loaded, and the variables that make a command find them."""
    source = folder / "hang.c"
    source.write_text(SOURCE)
    for name in names or LIBRARIES:
        library = folder / f"lib{name}.so.1"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "HANGS": str(folder / "hangs-")}
