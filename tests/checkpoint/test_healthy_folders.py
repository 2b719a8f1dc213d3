"""What frameworks save raises no alarm: sixty directories of some twenty kinds, each made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from healthy_folders import folders, make

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.cli.options import ConfigFlags
from doctor.cli.scan import facts_of, judge
from doctor.judge.check import Status

pytest.importorskip("torch")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(
    "maker", [pytest.param(maker, id=name.replace(" ", "-")) for name, maker in folders()]
)
def test_no_alarm(maker: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "m", maker)
    path = str(tmp_path / "m")
    checkpoint = read(ScanRequest(path=path, deep=True), no_stage, lambda note: None)
    assert not isinstance(checkpoint, Unknown), checkpoint.reason
    flags = ConfigFlags(config=None, no_config=True)
    report = judge(facts_of(path, checkpoint, 0.0), {}, flags, "fail", search=False)
    alarms = [
        f"{finding.check.code} {finding.verdict.summary}"
        for finding in report.findings
        if finding.status in (Status.FAIL, Status.WARN, Status.UNKNOWN)
    ]
    assert not alarms
