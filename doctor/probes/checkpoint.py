"""Reads the headers and norms of the checkpoint named by the second argument.

Runs under the doctor's own interpreter, since it uses the package's readers; it is a process of
its own because a dead mount never answers.
"""

import contextlib
import os
import resource
import sys

import wire

MEMORY = 4 << 30
"""Address space: a header of the largest legal size takes about 1 GiB to read."""


def main(path: str) -> None:
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with wire.stage("import doctor"):
        if home not in sys.path:
            sys.path.insert(0, home)
        import msgspec

        from doctor.checkpoint.scan import scan
        from doctor.sections import Unknown
    found = scan(path, wire.stage)
    answer = msgspec.to_builtins(found)
    wire.tell(answer=answer if isinstance(found, Unknown) else {"checkpoint": answer})


if __name__ == "__main__":
    main(sys.argv[2])
