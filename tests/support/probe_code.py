"""Code for processes of the tests that use modules of the probes, as a probe does."""

from __future__ import annotations

from doctor.collect.child import PROBES

REGISTERED = f"""
import sys
sys.path.insert(0, {str(PROBES)!r})
import launch
launch.register()
wire = launch.load("wire")

def probe(name):
    return launch.load("training_side." + name)

"""
"""Needs the descriptor of the reports as the first argument; defines `wire` and `probe`, which
returns a module of the training side."""
RUN = "\nlaunch.run()\n"
"""Then runs the probe that the next argument names."""
