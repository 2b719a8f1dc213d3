"""The curves of a log as a picture in the HTML report."""

from __future__ import annotations

import re
from pathlib import Path

from doctor.cli.options import ConfigFlags
from doctor.cli.triage import triage
from doctor.report.formats.html.page import render

LOGS = Path(__file__).parents[1] / "log" / "real"


def page(name: str | Path) -> str:
    report = triage([str(LOGS / name)], {}, ConfigFlags(no_config=True))
    return render(report)


def test_every_curve_is_drawn_and_the_failing_step_is_marked() -> None:
    text = page("trainer_nan.log")
    assert text.count('class="mark"') >= 3
    assert 'class="nonfinite"' in text
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text)
    assert [caption.split(",")[0] for caption in captions] == [
        "loss",
        "gradient norm",
        "learning rate",
    ]
    assert "LOG090 (line 4) at step 4" in text


def test_a_log_without_a_curve_has_no_picture_and_one_without_a_fault_no_mark(
    tmp_path: Path,
) -> None:
    plain = tmp_path / "plain.log"
    plain.write_text("starting\nRuntimeError: CUDA error: device-side assert triggered\n")
    assert 'class="mark"' not in page(plain)
    good = tmp_path / "good.log"
    good.write_text("".join(f"step {n} loss: {3 - n / 10:.2f}\n" for n in range(1, 25)))
    assert "<svg" in page(good)
    assert 'class="mark"' not in page(good)
    assert 'class="nonfinite"' not in page(good)
