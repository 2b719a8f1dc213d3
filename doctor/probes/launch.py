"""Runs one probe file: python launch.py FD SIDE/PROBE ARGUMENTS.

`wire` is imported from this directory and takes it off sys.path again; the probe then runs as the
main program, with its arguments where they would be without this file. This file alone also runs
under Python 2 and 3.6, to say that the others do not.
"""

import os
import runpy
import sys

if sys.version_info < (3, 7):
    version = ".".join(map(str, sys.version_info[:3]))
    message = '{"error": "UnsupportedPython: this is Python %s; 3.9 or newer required"}' % version
    os.write(int(sys.argv[1]), message.encode("ascii") + b"\n")
    sys.exit(1)

import parent
import wire  # noqa: F401 - before the probe, whose directory is not on sys.path

parent.end_with_parent()

runpy.run_path(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), sys.argv.pop(2) + ".py"),
    run_name="__main__",
)
