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
        (19 * GB, Status.WARN),  # the weights fit, the size of the optimizer's state is not stated
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
    assert "--params" in verdict.summary


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


@pytest.mark.parametrize(
    ("path", "nearest", "status"),
    [
        ("runs", "/home/a", Status.PASS),
        ("./runs", "/home/a", Status.PASS),
        ("../runs", "/home", Status.PASS),
        ("~/runs", "/root", Status.PASS),
        ("out/runs", "/home/a/out", Status.PASS),
        ("/data/runs", "/data", Status.PASS),
        ("out/runs", "/home/a", Status.WARN),
        ("/data/runs", "/", Status.WARN),
        ("~/out/runs", "/root", Status.WARN),
    ],
)
def test_only_a_path_whose_parent_is_missing_may_be_misspelled(
    path: str, nearest: str, status: Status
) -> None:
    """The path is as the user wrote it, the directory that was measured is absolute."""
    examined = named(exists=False, wrote=None, path=path, nearest=nearest)
    verdict = usable(examined)
    assert verdict.status is status
    assert verdict.summary.count("exist") == 1


def named(**facts: Any) -> Place:
    return place(**({"named": True, "wrote": OK} | facts))


@pytest.mark.parametrize(
    ("examined", "status", "detail"),
    [
        (named(), Status.PASS, "/output"),
        (named(inodes=0, inodes_free=0), Status.PASS, "/output"),
        (named(inodes=None, inodes_free=None), Status.PASS, "/output"),
        (named(exists=False, wrote=None), Status.PASS, "/output"),
        (named(filesystem="nfs4"), Status.PASS, "/output"),
        (named(filesystem="tmpfs"), Status.WARN, "tmpfs"),
        (named(filesystem="overlay"), Status.WARN, "overlay"),
        (named(inodes_free=49), Status.WARN, "4.9%"),
        (named(exists=False, wrote=None, free=10), Status.WARN, "0 MB"),
        (named(wrote=Ended(how="error", detail="Read-only file system")), Status.FAIL, "Read-only"),
        (named(exists=False, wrote=None, writable=False), Status.FAIL, "/output"),
        (named(looked=HANGS, wrote=None), Status.FAIL, HANGS.detail),
        (named(looked=BROKE, wrote=None), Status.UNKNOWN, BROKE.detail),
        (named(wrote=None), Status.UNKNOWN, "/output"),
        (named(wrote=None, writable=None), Status.UNKNOWN, "/output"),
        (place(), Status.PASS, "/output"),
        (place(filesystem="tmpfs"), Status.PASS, "/output"),
        (place(writable=False), Status.WARN, "/output"),
        (place("cache"), Status.PASS, "/cache"),
        (place("cache", exists=False), Status.PASS, "/cache"),
        (place("cache", writable=False), Status.WARN, "/cache"),
        (place("cache", free=0), Status.WARN, "0 MB"),
        (place("temporary", filesystem="tmpfs"), Status.PASS, "/temporary"),
        (place("temporary", inodes_free=0), Status.WARN, "0.0%"),
        (place("cache", looked=HANGS), Status.WARN, HANGS.detail),
        (place("cache", looked=BROKE), Status.UNKNOWN, BROKE.detail),
        (place("cache", writable=None), Status.UNKNOWN, "/cache"),
    ],
)
def test_paths_usable(examined: Place, status: Status, detail: str) -> None:
    verdict = usable(examined)
    assert verdict.status is status
    assert detail in verdict.summary


def test_the_worst_directory_decides_and_every_problem_is_reported() -> None:
    verdict = usable(
        place("cache", free=0),
        named(wrote=Ended(how="error", detail="I/O error")),
        place("temporary"),
    )
    assert verdict.status is Status.FAIL
    assert "I/O error" in verdict.summary
    assert "/cache" in verdict.summary
    assert "temporary" not in verdict.summary


def test_an_unknown_outweighs_a_warning() -> None:
    verdict = usable(place("cache", free=0), place("temporary", looked=BROKE))
    assert verdict.status is Status.UNKNOWN
    assert "/cache" in verdict.summary


def test_no_directory_at_all_is_unknown() -> None:
    assert usable().status is Status.UNKNOWN


def test_sources_resolve() -> None:
    for check in storage.CHECKS:
        assert set(check.sources) <= SOURCES.keys()
