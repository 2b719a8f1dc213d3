"""The first file that doctor.pyz runs, under any Python from 2.7: unpacks and starts the doctor.

The doctor gets an environment of its own below ~/.cache/preflight-doctor, which holds nothing of
the Python that runs this file but a link to its numpy. The doctor examines that Python, unless a
virtual or conda environment is active or DOCTOR_PYTHON is set.
"""

import os
import platform
import shutil
import sys
import tempfile
import zipfile

ARCHIVE = os.path.dirname(os.path.abspath(__file__))


def system():
    libc = "" if sys.platform != "linux" or platform.libc_ver()[0] == "glibc" else "-musl"
    return "%s%s-%s" % (sys.platform.rstrip("2"), libc, platform.machine())


def interpreter():
    return "%s %d.%d%s" % (
        platform.python_implementation(),
        sys.version_info[0],
        sys.version_info[1],
        "t" if "t" in getattr(sys, "abiflags", "") else "",
    )


def refusal(served):
    """Why this Python cannot run the doctor; `served` are the names below parts/."""
    pythons = sorted({name.split("_")[0] for name in served})
    systems = sorted({name.split("_", 1)[1] for name in served})
    return (
        "doctor: this file serves %s on %s, and this is %s on %s; `uvx --python 3.12 --from "
        "ADDRESS doctor run` brings a Python and examines the torch of this one"
        % (
            ", ".join(pythons).replace(", CPython", ","),
            ", ".join(systems),
            interpreter(),
            system(),
        )
    )


def parent_directory():
    """A directory that is this user's alone. Exits 2 if there is none."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    shared = os.path.join(tempfile.gettempdir(), "preflight-doctor-%d" % os.getuid())
    for directory in (os.path.join(cache, "preflight-doctor"), shared):
        try:
            os.makedirs(directory, 0o700, exist_ok=True)
            if is_own(directory):
                return directory
        except OSError:
            continue
    sys.exit("doctor: neither %s nor %s can be written to; set XDG_CACHE_HOME" % (cache, shared))


def is_own(directory):
    """Whether only this user can write to it, and can."""
    found = os.lstat(directory)
    private = found.st_uid == os.getuid() and not found.st_mode & 0o022
    return private and not os.path.islink(directory) and os.access(directory, os.W_OK)


def unpack(archive, part, home):
    """Make the environment `home`, whole or not at all."""
    if os.path.exists(home):
        return
    new = tempfile.mkdtemp(dir=os.path.dirname(home))
    packages = os.path.join(new, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
    for name in archive.namelist():
        for folder in ("packages/", "parts/%s/" % part):
            if name.startswith(folder):
                target = os.path.join(packages, name[len(folder) :])
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with archive.open(name) as source, open(target, "wb") as file:
                    shutil.copyfileobj(source, file)
    link_numpy(packages)
    base = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    os.mkdir(os.path.join(new, "bin"))
    os.symlink(base, os.path.join(new, "bin", "python"))
    with open(os.path.join(new, "pyvenv.cfg"), "w") as settings:
        settings.write("home = %s\ninclude-system-site-packages = false\n" % os.path.dirname(base))
    try:
        os.rename(new, home)
    except OSError:  # another process was faster
        shutil.rmtree(new)


def link_numpy(packages):
    """Checkpoints are read with the numpy of this Python; without one they are unknown."""
    from importlib.util import find_spec

    spec = find_spec("numpy")
    for found in (spec and spec.submodule_search_locations) or ():
        for path in (found, found + ".libs"):
            if os.path.isdir(path):
                os.symlink(os.path.abspath(path), os.path.join(packages, os.path.basename(path)))


def main():
    archive = zipfile.ZipFile(ARCHIVE)
    served = {name.split("/")[1] for name in archive.namelist() if name.startswith("parts/")}
    part = "%s_%s" % (interpreter(), system())
    if part not in served:
        sys.stderr.write(refusal(served) + "\n")
        sys.exit(2)
    from hashlib import sha256

    key = sha256((archive.read("contents").decode() + sys.executable).encode()).hexdigest()[:16]
    home = os.path.join(parent_directory(), key)
    unpack(archive, part, home)
    if not {"DOCTOR_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX"} & set(os.environ):
        os.environ["DOCTOR_PYTHON"] = sys.executable
    program = os.path.join(home, "bin", "python")
    os.execv(program, [program, "-P", "-m", "preflight_doctor"] + sys.argv[1:])


if __name__ == "__main__":
    main()
