"""Runs one probe: python launch.py FD PROBE ARGUMENTS, with a PROBE as "doctor_side.nvml".

The probes are a package with relative imports, `doctor.probes` in the doctor. In the interpreter
that runs them it has another name, and neither its directory nor the working directory is on
sys.path: a directory named torch must not be imported instead of torch. The probe is imported and
not run as the main program, so that the processes that a training spawns can be started. This file
alone also runs under Python 2 and 3.6, to say that the others do not.
"""

import os
import sys
import types

if sys.version_info < (3, 7):
    version = ".".join(map(str, sys.version_info[:3]))
    message = '{"error": "UnsupportedPython: this is Python %s; 3.9 or newer required"}' % version
    os.write(int(sys.argv[1]), message.encode("ascii") + b"\n")
    sys.exit(1)

PACKAGE = "_doctor_probes"
HOME = os.path.dirname(os.path.abspath(__file__))


def register():  # type: () -> None
    """Make the probes importable, end with the doctor, and report to the first argument."""
    removed = {os.path.realpath(HOME)}
    if {"", "."} & set(os.environ.get("PYTHONPATH", "absent").split(os.pathsep)):
        removed.add(os.path.realpath(os.getcwd()))
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") not in removed]
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = [HOME]
        sys.modules[PACKAGE] = package
        load("parent").end_with_parent()
        load("wire").report_to(int(sys.argv[1]))


def load(name):  # type: (str) -> types.ModuleType
    """The module of that name below `doctor.probes`."""
    import importlib

    return importlib.import_module("%s.%s" % (PACKAGE, name))


def run():  # type: () -> None
    """Run the probe that the arguments name."""
    register()
    probe = load(sys.argv.pop(2))
    probe.main(*sys.argv[2:])


if __name__ == "__main__":
    run()
