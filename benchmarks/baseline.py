"""What moved between two checkpoints of 4 GB each, in the page cache.

Every tensor differs but the norms, as after a training that bf16 swallowed for them; then, for
comparison, nothing differs and every byte is read.

    python benchmarks/baseline.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from deep_scan import LAYERS, cat, listed, write
from turns import against, best, busy, memory

from doctor.checkpoint.analysis.baseline import compare
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.records import Movement

COMPARE = """
from pathlib import Path
from baseline import compared
from deep_scan import listed
mark()
compared(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def compared(now: Path, then: Path) -> Movement:
    """Headers included."""
    found = compare(LocalDirectory(now), listed(now), LocalDirectory(then), listed(then))
    assert isinstance(found, Movement)
    assert not found.reasons
    return found


def measure(layers: int, turns: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        now, then = Path(name) / "now", Path(name) / "then"
        for folder, seed in ((now, 1), (then, 2)):
            folder.mkdir()
            write(folder, layers, seed, still="norm")
        found = compared(now, then)
        assert {one.kind for one in found.still} == {"norm"}
        assert compared(now, now).moved == 0
        took = best(
            turns,
            cat=lambda: (cat(now), cat(then)),
            moved=lambda: compared(now, then),
            unmoved=lambda: compared(now, now),
        )
        took["memory"] = memory(COMPARE, str(now), str(then))
        size = 2 * sum(path.stat().st_size for path in now.iterdir())
    print(
        f"2 x {size / 2e9:.2f} GB, {found.changed} of {found.compared} changed: "
        f"{took['moved']:.1f} ms, {found.bytes / 1e6:.0f} MB read, "
        f"memory {took['memory']:.1f} MB over the start; cat of all {took['cat']:.0f} ms; "
        f"nothing moved: {took['unmoved']:.0f} ms"
    )
    return took | {"tensors": found.compared}


def main() -> None:
    print(busy())
    large, half = measure(LAYERS, 9), measure(LAYERS // 2, 9)
    print(f"  {against(100, large['moved'])} ms")
    print(
        f"  {large['tensors'] / half['tensors']:.2f} x the tensors take "
        f"{large['moved'] / half['moved']:.2f} x the time"
    )
    print(busy())


if __name__ == "__main__":
    main()
