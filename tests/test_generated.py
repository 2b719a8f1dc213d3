"""Generated files are current, and a new check changes few of them."""

from __future__ import annotations

from dataclasses import replace
from difflib import unified_diff
from itertools import islice
from pathlib import Path

import pytest
from browser import missing
from generated import DOCS, LIMIT, generated, picture_is_stale, stale, strays
from paths import ROOT

from doctor import catalog
from doctor.facts.host import Host
from doctor.judge.check import Check, Verdict, fail, ok

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the documents are not at hand")


def difference(path: Path, text: str) -> str:
    """The first lines of a diff."""
    now = path.read_text("utf-8") if path.exists() else ""
    lines = unified_diff(
        now.splitlines(), text.splitlines(), str(path.relative_to(ROOT)), lineterm=""
    )
    return "\n".join(islice(lines, 12))


def test_generated_files_are_current() -> None:
    texts = generated()
    changed = [difference(path, text) for path, text in stale(texts).items()]
    changed += [f"nothing generates {path.relative_to(ROOT)}" for path in strays(texts)]
    assert not changed, "run .ci/update\n" + "\n".join(changed)


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_picture_of_the_page_is_current() -> None:
    assert not picture_is_stale(), "run .ci/update"


def memory_is_large(host: Host) -> Verdict:
    """A small machine fails, every other one passes."""
    large = (host.memory_total or 0) > 2**36
    return ok("more than 64 GiB") if large else fail("at most 64 GiB; more required")


def new_check() -> Check:
    """A check as a contributor writes it, on every machine of a section that all have."""
    model = catalog.find("MEM003")[0]
    return replace(model, code="MEM900", slug="host-memory-large", judge=memory_is_large, after=())


def test_a_new_check_changes_few_generated_files(monkeypatch: pytest.MonkeyPatch) -> None:
    before = generated()
    monkeypatch.setattr(catalog, "CHECKS", (*catalog.CHECKS, new_check()))
    after = generated(catalog.CHECKS)
    changed = [path for path, text in after.items() if before.get(path) != text]
    assert 0 < len(changed) <= LIMIT, changed
