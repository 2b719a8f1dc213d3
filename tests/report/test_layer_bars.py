"""Tables by layer: figures as text in every format, and as bars in HTML."""

from __future__ import annotations

from recorded_checkpoints import checkpoint, merge

from doctor.checkpoint.records import LayerUpdate
from doctor.cli.options import ConfigFlags
from doctor.cli.scan import facts_of, judge
from doctor.report.formats.table import FORMATS


def test_updates_by_layer_are_bars_in_html_and_text_elsewhere() -> None:
    rows = (
        LayerUpdate(layer="0", kind="attention", tensors=2, relative=0.2, scale=1.0, lost=0.25),
        LayerUpdate(layer="1", kind="attention", tensors=2, relative=0.1, scale=None, lost=0.0),
    )
    facts = facts_of("/models/merged", checkpoint(merge=merge(layers=rows)), 0.1)
    report = judge(facts, {}, ConfigFlags(no_config=True), "fail")
    page = FORMATS["html"](report)
    for width in ("100.00%", "50.00%", "25.00%"):
        assert f'class="s0" x="0.00%" width="{width}"' in page
    for name in ("html", "markdown", "console"):
        assert "lost to rounding" in FORMATS[name](report)
