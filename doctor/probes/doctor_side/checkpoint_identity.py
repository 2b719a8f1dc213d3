"""Which files lie at the path named by the second argument, for other nodes to compare.

Runs under the doctor's own interpreter, in a process of its own: a dead mount never answers.
"""

import os
import sys

from .. import wire


def main(path: str) -> None:
    home = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    if home not in sys.path:
        sys.path.insert(0, home)
    with wire.stage("import doctor"):
        import msgspec

        from doctor.checkpoint.identity import identity
    try:
        with wire.stage("list %s" % path):
            wire.send(answer=msgspec.to_builtins(identity(os.path.expanduser(path))))
    except OSError as error:
        wire.send(error=error.strerror or str(error), code=error.errno)
