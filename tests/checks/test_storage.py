from __future__ import annotations

from typing import Any

import pytest

from doctor._util.records import Ended, Unknown
from doctor._util.units import GB
from doctor.checkpoint.records import Checkpoint, Contents, Files
from doctor.checks import storage
from doctor.facts.machine import Place
from doctor.job.job import Job
from doctor.judge.check import Status, Verdict
from doctor.judge.sources import SOURCES

OK = Ended(how="ok")
HANGS = Ended(how="timeout", detail="no answer in 8 s inside statvfs", seconds=8.0)
BROKE = Ended(how="error", detail="the probe died")


def place(role: str = "output", **facts: Any) -> Place:
    known: dict[str, Any] = {
        "path": f"/{role}",
        "looked": OK,
        "exists": True,
        "filesystem": "ext4",
        "total": 1000 * GB,
        "free": 500 * GB,
        "inodes": 1000,
        "inodes_free": 900,
        "writable": True,
    }
    return Place(role=role, **(known | facts))  # type: ignore[arg-type]


def checkpoint(parameters: int, **facts: Any) -> Checkpoint:
    known: dict[str, Any] = {
        "path": "model",
        "layout": "file",
        "files": Files(count=1, bytes=2 * parameters, largest=2 * parameters),
        "contents": Contents(tensors=1, parameters=parameters),
    }
    return Checkpoint(**(known | facts))


def room(free: int | None, job: Job | None = None, model: Any = None, **facts: Any) -> Verdict:
    places = (place("cache", free=1), place(free=free, **facts))
    return storage.ROOM.judge(job=job or Job(), places=places, checkpoint=model)


@pytest.mark.parametrize(
    ("free", "status"),
    [
        (500 * GB, Status.PASS),
        (24 * GB, Status.PASS),  # 2 x 1B x (2 + 8) bytes = 20 GB, 24 GB with slack
        (23 * GB, Status.WARN),
        (19 * GB, Status.WARN),  # the weights fit, the optimizer's state was not stated
        (4 * GB, Status.WARN),
        (3 * GB, Status.FAIL),
        (None, Status.UNKNOWN),
    ],
)
def test_room_by_the_checkpoint(free: int | None, status: Status) -> None:
    assert room(free, model=checkpoint(GB)).status is status


@pytest.mark.parametrize(
    ("free", "status"),
    [(29 * GB, Status.PASS), (25 * GB, Status.WARN), (23 * GB, Status.FAIL)],
)
def test_room_by_parameters(free: int, status: Status) -> None:
    """2 x 1B x (4 + 8) bytes = 24 GB."""
    assert room(free, Job(params=GB)).status is status


def test_a_stated_recipe_makes_the_optimizer_count() -> None:
    assert room(15 * GB, Job(recipe="amp"), checkpoint(GB)).status is Status.FAIL
    assert room(15 * GB, Job(recipe="pure-bf16"), checkpoint(GB)).status is Status.PASS


def test_keep_multiplies() -> None:
    assert room(100 * GB, Job(params=GB, keep=8)).status is Status.WARN
    assert room(100 * GB, Job(params=GB, keep=9)).status is Status.FAIL


def test_adapters_are_small() -> None:
    assert room(2 * GB, Job(params=8 * GB, trainable=40_000_000)).status is Status.PASS
    assert room(2 * GB, Job(trainable=40_000_000), checkpoint(8 * GB)).status is Status.PASS


@pytest.mark.parametrize(
    ("free", "status"),
    [
        (20 * GB, Status.PASS),
        (20 * GB - 1, Status.WARN),
        (5 * GB, Status.WARN),
        (5 * GB - 1, Status.FAIL),
        (0, Status.FAIL),
    ],
)
def test_room_without_a_size(free: int, status: Status) -> None:
    verdict = room(free)
    assert verdict.status is status
    assert "not known" in verdict.summary


def test_a_checkpoint_that_could_not_be_read_has_no_size() -> None:
    verdict = room(500 * GB, model=Unknown(reason="a pickle"))
    assert verdict.status is Status.PASS
    assert "a pickle" in verdict.summary


def test_room_unknown() -> None:
    silent = room(None, looked=HANGS)
    assert silent.status is Status.UNKNOWN
    assert "statvfs" in silent.summary
    nowhere = storage.ROOM.judge(job=Job(), places=(place("cache"),), checkpoint=None)
    assert nowhere.status is Status.UNKNOWN


def usable(*places: Place) -> Verdict:
    return storage.USABLE.judge(places=places)


def named(**facts: Any) -> Place:
    return place(**({"named": True, "wrote": OK} | facts))


@pytest.mark.parametrize(
    ("seen", "status", "word"),
    [
        (named(), Status.PASS, "took write, fsync and delete"),
        (named(inodes=0, inodes_free=0), Status.PASS, "took"),
        (named(inodes=None, inodes_free=None), Status.PASS, "took"),
        (named(exists=False, wrote=None), Status.PASS, "does not exist yet"),
        (named(filesystem="nfs4"), Status.PASS, "took"),
        (named(filesystem="tmpfs"), Status.WARN, "gone at the next start"),
        (named(filesystem="overlay"), Status.WARN, "goes with the container"),
        (named(inodes_free=49), Status.WARN, "4.9%"),
        (named(exists=False, wrote=None, free=10), Status.WARN, "full"),
        (named(wrote=Ended(how="error", detail="Read-only file system")), Status.FAIL, "Read-only"),
        (named(exists=False, wrote=None, writable=False), Status.FAIL, "cannot be written"),
        (named(looked=HANGS, wrote=None), Status.FAIL, "no answer in 8 s inside statvfs"),
        (named(looked=BROKE, wrote=None), Status.UNKNOWN, "the probe died"),
        (named(wrote=None), Status.UNKNOWN, "not tried"),
        (named(wrote=None, writable=None), Status.UNKNOWN, "not read"),
        (place(), Status.PASS, "can be written"),
        (place(filesystem="tmpfs"), Status.PASS, "can be written"),
        (place(writable=False), Status.WARN, "cannot be written"),
        (place("cache"), Status.PASS, "cache folder /cache"),
        (place("cache", exists=False), Status.PASS, "does not exist yet"),
        (place("cache", writable=False), Status.WARN, "cannot be written"),
        (place("cache", free=0), Status.WARN, "full"),
        (place("temporary", filesystem="tmpfs"), Status.PASS, "can be written"),
        (place("temporary", inodes_free=0), Status.WARN, "0.0%"),
        (place("cache", looked=HANGS), Status.WARN, "no answer"),
        (place("cache", looked=BROKE), Status.UNKNOWN, "could not be looked at"),
        (place("cache", writable=None), Status.UNKNOWN, "not read"),
    ],
)
def test_paths_usable(seen: Place, status: Status, word: str) -> None:
    verdict = usable(seen)
    assert verdict.status is status
    assert word in verdict.summary


def test_the_gravest_folder_decides_and_all_complaints_are_told() -> None:
    verdict = usable(
        place("cache", free=0),
        named(wrote=Ended(how="error", detail="I/O error")),
        place("temporary"),
    )
    assert verdict.status is Status.FAIL
    assert "I/O error" in verdict.summary
    assert "cache folder /cache is full" in verdict.summary
    assert "temporary" not in verdict.summary


def test_what_could_not_be_read_outweighs_a_warning() -> None:
    verdict = usable(place("cache", free=0), place("temporary", looked=BROKE))
    assert verdict.status is Status.UNKNOWN
    assert "full" in verdict.summary


def test_no_folder_at_all_is_unknown() -> None:
    assert usable().status is Status.UNKNOWN


def test_sources_resolve() -> None:
    for check in storage.CHECKS:
        assert set(check.sources) <= SOURCES.keys()
