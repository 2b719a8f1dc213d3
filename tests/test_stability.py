"""docs/stability.md: what a user's script relies on stays, until somebody decides otherwise."""

from __future__ import annotations

import surface


def test_nothing_of_the_public_surface_has_gone() -> None:
    gone = sorted(set(surface.recorded()) - surface.current())
    assert not gone, (
        "restore the old spelling as an alias; or delete these lines of tests/surface.txt, and say "
        f"so in CHANGELOG.md: {gone}"
    )


def test_every_kind_of_thing_is_recorded() -> None:
    lines = surface.current()
    for kind in ("code", "flag", "json", "job-file", "python", "format", "script", "variable"):
        assert any(line.startswith(f"{kind} ") for line in lines), kind
    assert {"flag run --gpus", "code NUM003 cudnn-sdpa", "json report report.verdict"} <= lines
