"""Reads the headers and norms of the checkpoint named by the second argument.

With a third, a JSON object with the fields of `ScanRequest`, it reads for `doctor scan` and reports
progress. Runs under the doctor's own interpreter, since it uses the package's readers, and in a
process of its own, because a dead mount never answers.
"""

import contextlib
import json
import os
import resource
import sys

from .. import wire

MEMORY = 4 << 30
"""Address space: a header of the largest legal size takes about 1 GiB to read."""


PER_THREAD = 256 << 20
"""Address space that a thread of --deep and its share of the allocator may take."""


def main(path: str, request: str = "") -> None:
    options = json.loads(request or "{}")
    room = MEMORY + PER_THREAD * (os.cpu_count() or 1) * bool(options.get("deep"))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no linear algebra is needed
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (room, resource.getrlimit(resource.RLIMIT_AS)[1]))
    home = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    with wire.stage("import doctor"):
        if home not in sys.path:
            sys.path.insert(0, home)
        import msgspec

        from doctor._util.records import Unknown
        from doctor.checkpoint.scan import scan
    if request:
        from doctor.checkpoint.contents import ScanRequest, read

        scan_request = ScanRequest(path=path, **options)
        result = read(scan_request, wire.stage, lambda note: wire.send(note=note))
    else:
        result = scan(path, wire.stage)
    answer = msgspec.to_builtins(result)
    wire.send(answer=answer if isinstance(result, Unknown) else {"checkpoint": answer})
