"""Runs one probe file: python launch.py FD SIDE/PROBE ARGUMENTS.

`wire` is imported from this directory and takes it off sys.path again; the probe then runs as the
main program, with its arguments where they would be without this file.
"""

import os
import runpy
import sys

import wire  # noqa: F401 - before the probe, whose directory is not on sys.path

runpy.run_path(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), sys.argv.pop(2) + ".py"),
    run_name="__main__",
)
