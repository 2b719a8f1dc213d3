"""Whether the job's folders take its checkpoints."""

from __future__ import annotations

from pathlib import PurePath

from doctor._util.records import Unknown
from doctor._util.units import GB, gb
from doctor.checkpoint.records import Checkpoint
from doctor.facts.machine import Place
from doctor.facts.memory.training import Saved, saved_size
from doctor.facts.training import OwnModel
from doctor.job.job import Job
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, unknown, warn
from doctor.judge.combine import worst

SLACK = 1.2
"""Room beyond the checkpoints: a new one is written before an old one goes (DSK001's rule)."""
FREE_BLOCK, FREE_WARN = 5 * GB, 20 * GB
"""computefence's limits, machine-checks rank 15."""
INODES = 0.05
"""Share of free inodes (DSK002's rule)."""
FULL = 100 * 10**6
"""Less than this is full: the compile caches alone take more. Our own number."""
VOLATILE = {
    "tmpfs": "lives in memory and is gone at the next start",
    "ramfs": "lives in memory and is gone at the next start",
    "overlay": "is a container's own layer and goes with the container",
    "aufs": "is a container's own layer and goes with the container",
    "fuse.fuse-overlayfs": "is a container's own layer and goes with the container",
}


def room_for_checkpoints(
    job: Job,
    places: tuple[Place, ...],
    checkpoint: Checkpoint | Unknown | None,
    own: OwnModel | Unknown | None = None,
) -> Verdict:
    output = next((place for place in places if place.role == "output"), None)
    if output is None:
        return unknown("no output folder was looked at")
    if output.free is None:
        return unknown(f"the free space of {_at(output)} could not be read: {_silence(output)}")
    saved = saved_size(job, checkpoint, own)
    if not isinstance(saved, Saved):
        return _room_unsized(_at(output), output.free, saved)
    need, least = job.keep * saved.total, job.keep * saved.weights
    said = (
        f"{gb(output.free)} free in {_at(output)}, {job.keep} checkpoints of {gb(saved.total)} "
        f"({saved.said}) need {gb(need)}, {gb(SLACK * need)} required"
    )
    if output.free >= SLACK * need:
        return ok(said)
    stated = saved.tried or job.recipe is not None or job.params is not None
    if output.free < least or (stated and output.free < need):
        return fail(said)
    if output.free < need:
        return warn(f"{said}; weights alone, without optimizer state, need {gb(least)}")
    return warn(said)


def _at(place: Place) -> str:
    if place.exists is False and place.nearest:
        return f"{place.path} (not made yet, measured: {place.nearest})"
    return "the working directory" if place.path == "." else place.path


def _room_unsized(path: str, free: int, saved: Unknown | None) -> Verdict:
    why = saved.reason if saved else "neither --checkpoint nor --params"
    said = f"{gb(free)} free in {path}, the size of a checkpoint is not known ({why})"
    if free < FREE_BLOCK:
        return fail(f"{said}, >= {gb(FREE_BLOCK)} required")
    if free < FREE_WARN:
        return warn(f"{said}, >= {gb(FREE_WARN)} required")
    return ok(f"{said}, >= {gb(FREE_WARN)} required")


def paths_usable(places: tuple[Place, ...]) -> Verdict:
    written = [place for place in places if place.role != "expected"]
    if not written:
        return unknown("no folder was looked at")
    return worst(*(_usable(place) for place in written))


def _usable(place: Place) -> Verdict:
    where = f"{place.role} folder {_at(place)}"
    if not place.looked.ok:
        return _silent(place, where)
    taken = _takes_files(place, where)
    found = worst(taken, _lasts(place, where), _has_inodes(place, where))
    return taken if found.status is Status.PASS else found


def _silent(place: Place, where: str) -> Verdict:
    """A folder that hangs is a finding; one whose look broke is not known."""
    if place.looked.how != "timeout":
        return unknown(f"{where} could not be looked at: {_silence(place)}")
    said = f"{where} gives no answer: {_silence(place)}"
    return fail(said) if place.named else warn(said)


def _silence(place: Place) -> str:
    return place.looked.detail or ("the file system does not tell" if place.looked.ok else "died")


def _takes_files(place: Place, where: str) -> Verdict:
    """A trial file proves for a folder that was named; access and free space must do elsewhere."""
    complain = fail if place.named else warn
    if place.wrote is not None:
        said = "took write, fsync and delete" if place.wrote.ok else "cannot be written"
        detail = f": {place.wrote.detail}" if place.wrote.detail else ""
        return (ok if place.wrote.ok else complain)(f"{where} {said}{detail}")
    if place.writable is None:
        return unknown(f"whether the {where} can be written was not read")
    if not place.writable:
        return complain(f"{where} {_missing(place)}cannot be written by this user")
    if place.free is not None and place.free < FULL:
        return warn(f"{where} {_missing(place)}is full: {gb(place.free)} free")
    if place.named and place.exists is not False:
        return unknown(f"{where} was not tried with a file")
    if place.named and place.nearest and PurePath(place.path).parent != PurePath(place.nearest):
        said = f"{where} does not exist, nor do folders above it; {place.nearest} is the nearest"
        return warn(f"{said}, its disk was measured; is the path spelled right?")
    return ok(f"{where} {_missing(place)}can be written")


def _missing(place: Place) -> str:
    if place.exists is not False:
        return ""
    return "does not exist yet; the nearest folder above it "


def _lasts(place: Place, where: str) -> Verdict:
    fate = VOLATILE.get(place.filesystem or "")
    if place.named and fate:
        return warn(f"{where} is on {place.filesystem}, which {fate}")
    return ok(f"{where} is on {place.filesystem or 'a file system of unread type'}")


def _has_inodes(place: Place, where: str) -> Verdict:
    if place.inodes is None or place.inodes_free is None:
        return ok(f"inodes of the {where} not read")
    if place.inodes == 0:
        return ok(f"{where} has no inode limit")
    share = place.inodes_free / place.inodes
    said = f"{where} has {share:.1%} of its inodes free, >= {INODES:.0%} required"
    return ok(said) if share >= INODES else warn(said)


ROOM = Check(
    code="DSK001",
    slug="room-for-checkpoints",
    title="The output folder holds the checkpoints that are kept",
    why="A full disk breaks torch.save in the middle of a file, hours into the run, and what is "
    "left is a truncated checkpoint. One to resume from holds the optimizer's state beside the "
    "weights: with Adam in fp32 three times the bytes of the fp32 weights.",
    passes=(
        "free space is at least 1.2 times --keep checkpoints (weights and Adam's "
        "moments: what torch.save would write of the whole training of --model or "
        "--hf, else the weights as large as --checkpoint, else --params by the recipe",
        "with --trainable the trained part)",
        "where the size is not known, at least 20 GB are free",
    ),
    warns=(
        "less than 20 % slack",
        "the weights fit and the optimizer's state, which nobody stated by --params or "
        "--recipe, does not",
        "size not known and less than 20 GB free",
    ),
    fails=(
        "the checkpoints do not fit",
        "size not known and less than 5 GB free",
    ),
    fix="Write to a larger volume (--output-dir), keep fewer checkpoints (save_total_limit in "
    "transformers, --keep here), delete old ones, or save the weights alone (save_only_model=True: "
    "such a run cannot resume its optimizer).",
    commands=("df -h",),
    limits="that the space stays free: others write there too.",
    owner=Owner.ENVIRONMENT,
    judge=room_for_checkpoints,
    required="output_dir",
    sources=("ps-U6", "runpod-disk"),
)

USABLE = Check(
    code="DSK002",
    slug="paths-usable",
    title="The job's folders answer, take files and last",
    why="A mount that is gone hangs every call that touches it; a read-only or exhausted one "
    "ends the run at the first save. What lies on tmpfs or in a container's own layer is lost "
    "with the machine. A folder named with --output-dir is tried with a file of the doctor's own; "
    "caches and temporary folders are only looked at.",
    passes=(
        "a named output folder takes write, fsync and delete (one that does not exist "
        "yet: its nearest existing parent can be written)",
        "the other folders can be written and have 100 MB free",
    ),
    warns=(
        "a named output folder of which even the parent does not exist, or on tmpfs or "
        "a container's overlay",
        "a cache, temporary or working folder that is full (less than 100 MB), not "
        "writable or silent",
        "less than 5 % of the inodes free (file systems without an inode limit: not applicable)",
    ),
    fails=("a named output folder cannot be written, or gives no answer within the deadline",),
    fix="Name a folder on a volume that outlasts the container and is writable for this user. "
    "Move caches with HF_HOME and temporary files with TMPDIR. For a silent network mount look at "
    "its server; a trial file named .doctor-* that could not be deleted may be left there.",
    commands=("findmnt --target DIR", "df -hi DIR"),
    limits="that the disk is fast, or that it outlives the machine where its type does not tell.",
    owner=Owner.ENVIRONMENT,
    judge=paths_usable,
    required="output_dir",
    sources=("ps-U6", "runpod-disk"),
)

CHECKS = (ROOM, USABLE)
