"""DSK: whether the job's directories hold its checkpoints, and storage accepts the clock."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import PurePath

from doctor._util.records import Unknown
from doctor._util.units import GB, gb
from doctor.checkpoint.records import Checkpoint
from doctor.facts.host import Host
from doctor.facts.machine import Place
from doctor.facts.memory.training import Saved, saved_size
from doctor.facts.own_model import OwnModel
from doctor.job.job import Job
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst

WARN_SECONDS = 60.0
"""Our own number: TLS and object storage accept minutes, and a service that works keeps
milliseconds."""

SLACK = 1.2
"""Factor on the checkpoints' size: a new one is written before an old one is deleted."""
FREE_BLOCK, FREE_WARN = 5 * GB, 20 * GB
"""computefence's limits, machine-checks rank 15."""
INODES = 0.05
"""Least share of free inodes."""
FULL = 100 * 10**6
"""Bytes; a disk with less is full: the compile caches alone take more. Our own number."""
VOLATILE = {
    "tmpfs": "lives in memory and is lost at the next start",
    "ramfs": "lives in memory and is lost at the next start",
    "overlay": "is a container's own layer and is deleted with the container",
    "aufs": "is a container's own layer and is deleted with the container",
    "fuse.fuse-overlayfs": "is a container's own layer and is deleted with the container",
}


def room_for_checkpoints(
    job: Job,
    places: tuple[Place, ...],
    checkpoint: Checkpoint | Unknown | None,
    own: OwnModel | Unknown | None = None,
) -> Verdict:
    output = next((place for place in places if place.role == "output"), None)
    if output is None:
        return unknown("no output directory was examined")
    if output.free is None:
        return unknown(f"the free space of {_at(output)} could not be read: {_reason(output)}")
    saved = saved_size(job, checkpoint, own)
    if not isinstance(saved, Saved):
        return _room_unsized(_at(output), output.free, saved)
    need, least = job.keep * saved.total, job.keep * saved.weights
    summary = (
        f"{gb(output.free)} free in {_at(output)}; {gb(SLACK * need)} required, as {job.keep} "
        f"checkpoints of {gb(saved.total)} ({saved.basis}) take {gb(need)}"
    )
    if output.free >= SLACK * need:
        return ok(summary)
    stated = saved.measured or job.recipe is not None or job.params is not None
    if output.free < least or (stated and output.free < need):
        return fail(summary)
    if output.free < need:
        return warn(f"{summary}; the weights without optimizer state take {gb(least)}")
    return warn(summary)


def _at(place: Place) -> str:
    if place.exists is False and place.nearest:
        return f"{place.path} (does not exist yet, measured: {place.nearest})"
    return "the working directory" if place.path == "." else place.path


def _room_unsized(path: str, free: int, saved: Unknown | None) -> Verdict:
    reason = saved.reason if saved else "neither --checkpoint nor --params"
    required = FREE_BLOCK if free < FREE_BLOCK else FREE_WARN
    summary = (
        f"{gb(free)} free in {path}; at least {gb(required)} required, as the size of a "
        f"checkpoint is not known ({reason})"
    )
    if free < FREE_BLOCK:
        return fail(summary)
    return warn(summary) if free < FREE_WARN else ok(summary)


def paths_usable(places: tuple[Place, ...]) -> Verdict:
    used = [place for place in places if place.role != "expected"]
    if not used:
        return unknown("no directory was examined")
    return worst(*(_usable(place) for place in used))


def _usable(place: Place) -> Verdict:
    where = f"{place.role} directory {_at(place)}"
    if not place.looked.ok:
        return _unreachable(place, where)
    writable = _writable(place, where)
    verdict = worst(writable, _persistent(place, where), _has_inodes(place, where))
    if verdict.status is Status.PASS:
        return writable
    path = shlex.quote(place.path)
    commands = verdict.commands or (f"findmnt --target {path}", f"df -hi {path}")
    return replace(verdict, commands=commands)


def _unreachable(place: Place, where: str) -> Verdict:
    """A directory that hangs is a problem; one whose probe failed is unknown."""
    if place.looked.how != "timeout":
        return unknown(f"{where} could not be examined: {_reason(place)}")
    summary = f"{where} does not respond: {_reason(place)}"
    return fail(summary) if place.named else warn(summary)


def _reason(place: Place) -> str:
    """Why a directory could not be read."""
    if place.looked.detail:
        return place.looked.detail
    return "the file system does not report it" if place.looked.ok else "the probe died"


def _writable(place: Place, where: str) -> Verdict:
    """By a trial file in a directory named by the user; elsewhere by access and free space."""
    problem = fail if place.named else warn
    if place.wrote is not None:
        result = "accepts write, fsync and delete" if place.wrote.ok else "cannot be written"
        detail = f": {place.wrote.detail}" if place.wrote.detail else ""
        return (ok if place.wrote.ok else problem)(f"{where} {result}{detail}")
    if place.writable is None:
        return unknown(f"whether the {where} can be written was not read")
    if not place.writable:
        return problem(f"{where} cannot be written by this user")
    if place.free is not None and place.free < FULL:
        return warn(f"{where} is full: {gb(place.free)} free; at least {gb(FULL)} required")
    if place.named and place.exists is not False:
        return unknown(f"{where} was not tested with a file")
    if place.named and place.nearest and not _has_parent(place.path, place.nearest):
        return warn(
            f"{place.role} directory {place.path}: neither it nor its parent exists; the disk of "
            f"{place.nearest} was measured. Is the path spelled correctly?"
        )
    return ok(f"{where} can be written")


def _has_parent(path: str, nearest: str) -> bool:
    """Whether only the last part of the path is missing; `nearest` is absolute, the path may be
    relative or begin with ~."""
    above = PurePath(path).parent.parts
    parts = tuple(each for each in above if each != ".." and not each.startswith("~"))
    return not parts or PurePath(nearest).parts[-len(parts) :] == parts


def _persistent(place: Place, where: str) -> Verdict:
    loss = VOLATILE.get(place.filesystem or "")
    if place.named and loss:
        return warn(f"{where} is on {place.filesystem}, which {loss}")
    return ok(f"{where} is on {place.filesystem or 'a file system of unknown type'}")


def _has_inodes(place: Place, where: str) -> Verdict:
    if place.inodes is None or place.inodes_free is None:
        return ok(f"inodes of the {where} not read")
    if place.inodes == 0:
        return ok(f"{where} has no inode limit")
    share = place.inodes_free / place.inodes
    summary = f"{where} has {share:.1%} of its inodes free; at least {INODES:.0%} required"
    return ok(summary) if share >= INODES else warn(summary)


ROOM = Check(
    code="DSK001",
    slug="room-for-checkpoints",
    title="The output directory has room for the kept checkpoints",
    why="A full disk interrupts torch.save in the middle of a file, hours into the run, and leaves "
    "a truncated checkpoint. A checkpoint to resume from holds the optimizer's state as well: with "
    "Adam in fp32 three times the bytes of the fp32 weights.",
    passes=(
        f"free space is at least {SLACK} times --keep checkpoints with weights and Adam's moments",
        "their size: torch.save of the training of --model or --hf, else the size of --checkpoint, "
        "else --params with the recipe; with --trainable only the trained part",
        f"size not known: at least {gb(FREE_WARN)} are free",
    ),
    warns=(
        "the checkpoints fit with less than 20 % slack",
        "the weights fit, but not the optimizer's state, whose size --params or --recipe does not "
        "state",
        f"size not known: less than {gb(FREE_WARN)} free",
    ),
    fails=("the checkpoints do not fit", f"size not known: less than {gb(FREE_BLOCK)} free"),
    fix="Write to a larger volume (--output-dir), keep fewer checkpoints (save_total_limit in "
    "transformers, --keep here), delete old ones, or save only the weights (save_only_model=True: "
    "such a run cannot resume its optimizer).",
    commands=("df -h",),
    limits="that the space stays free: other processes write there too.",
    owner=Owner.ENVIRONMENT,
    judge=room_for_checkpoints,
    required="output_dir",
    sources=("ps-U6", "runpod-disk"),
)

USABLE = Check(
    code="DSK002",
    slug="paths-usable",
    title="The job's directories are reachable, writable and persistent",
    why="A mount that is gone hangs every call that touches it; a read-only or full one ends the "
    "run at the first save. Data on tmpfs or in a container's own layer is lost with the machine. "
    "Only a directory named with --output-dir is tested with a file; caches and temporary "
    "directories are only examined.",
    passes=(
        "a named output directory accepts write, fsync and delete",
        "a named output directory does not exist yet, and its parent can be written",
        f"the other directories can be written and have {gb(FULL)} free",
    ),
    warns=(
        "the parent of a named output directory does not exist",
        "a named output directory is on tmpfs or a container's overlay",
        "a cache, temporary or working directory is not writable, does not respond or has less "
        f"than {gb(FULL)} free",
        f"less than {INODES:.0%} of the inodes are free (if the file system limits inodes)",
    ),
    fails=(
        "a named output directory cannot be written",
        "a named output directory does not respond within the deadline",
    ),
    fix="Name a directory on a volume that outlives the container and is writable for this user. "
    "Move caches with HF_HOME and temporary files with TMPDIR. If a network mount does not "
    "respond, check its server; a test file named .doctor-* that could not be deleted may remain.",
    commands=("findmnt --target DIR", "df -hi DIR"),
    limits="that the disk is fast, or that it outlives the machine if its type does not show it.",
    owner=Owner.ENVIRONMENT,
    judge=paths_usable,
    required="output_dir",
    sources=("ps-U6", "runpod-disk"),
)


def is_right(host: Host) -> Verdict:
    if host.clock_service is None:
        return unknown("the offset of the clock was not recorded")
    if not host.clock_service:
        return skip("no time service answers here, so the offset of the clock is not known")
    if host.clock_offset is None:
        return unknown(f"{host.clock_service} answers, but has no measurement of the offset")
    summary = (
        f"the clock is {host.clock_offset:.3g} s off by {host.clock_service}; "
        f"less than {WARN_SECONDS:g} s required"
    )
    return ok(summary) if host.clock_offset < WARN_SECONDS else warn(summary)


CLOCK = Check(
    code="DSK003",
    slug="clock-is-right",
    title=f"The clock is less than {WARN_SECONDS:g} s off",
    why="Object storage and registries refuse signed requests and certificates of another time, so "
    "uploads of checkpoints fail hours later, and logs of several nodes cannot be put in order. "
    "chronyc or timedatectl is asked; no server on the network is.",
    passes=(
        f"the time service of this machine measured less than {WARN_SECONDS:g} s",
        "skipped where none answers, as in most containers",
    ),
    warns=(f"it measured {WARN_SECONDS:g} s or more",),
    fix="Start time synchronization on the host, and check that it reaches its server. In a "
    "container or a virtual machine ask the provider.",
    commands=("chronyc tracking",),
    limits="that the server of the time service is right.",
    owner=Owner.MACHINE,
    judge=is_right,
    sources=("chronyc", "aws-clock-180"),
)

CHECKS = (ROOM, USABLE, CLOCK)
