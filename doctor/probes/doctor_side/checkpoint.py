"""Reads the headers and norms of the checkpoint named by the second argument.

With a third, a JSON object, it reads what `doctor scan` wants and tells how far it is. Runs under
the doctor's own interpreter, since it uses the package's readers; it is a process of its own
because a dead mount never answers.
"""

import contextlib
import json
import os
import resource
import sys

import wire

MEMORY = 4 << 30
"""Address space: a header of the largest legal size takes about 1 GiB to read."""


PER_THREAD = 256 << 20
"""Address space that a thread of --deep and its share of the allocator may take."""


def main(path: str, wanted: str = "") -> None:
    asked = json.loads(wanted or "{}")
    room = MEMORY + PER_THREAD * (os.cpu_count() or 1) * bool(asked.get("deep"))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy is asked for no algebra
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (room, resource.getrlimit(resource.RLIMIT_AS)[1]))
    home = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    with wire.stage("import doctor"):
        if home not in sys.path:
            sys.path.insert(0, home)
        import msgspec

        from doctor._util.records import Unknown
        from doctor.checkpoint.scan import scan
    if wanted:
        from doctor.checkpoint import contents

        asked = contents.Wanted(path=path, **asked)
        found = contents.read(asked, wire.stage, lambda note: wire.tell(note=note))
    else:
        found = scan(path, wire.stage)
    answer = msgspec.to_builtins(found)
    wire.tell(answer=answer if isinstance(found, Unknown) else {"checkpoint": answer})


if __name__ == "__main__":
    main(*sys.argv[2:])
