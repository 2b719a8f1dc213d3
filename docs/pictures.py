"""The pictures of the README: `python docs/pictures.py`, in a checkout with the test extra.

console.svg is the report of a recorded machine as the terminal shows it, report.png the top of the
HTML report of the same machine in headless Chromium.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
MACHINE = TESTS / "machines" / "h200_torch2.11.json"
WIDTH, HEIGHT = 1080, 1180


def console() -> None:
    """Without the fonts that rich would have fetched from elsewhere."""
    from reports import judged

    from doctor.facts.facts import decode
    from doctor.report.terminal import show

    terminal = Console(
        record=True, width=100, file=io.StringIO(), force_terminal=True, highlight=False
    )
    show(judged(decode(MACHINE.read_bytes())), terminal)
    svg = terminal.export_svg(title="doctor run", unique_id="doctor")
    alone = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    (HERE / "console.svg").write_text(alone.replace("Fira Code", "ui-monospace"), "utf-8")


def page() -> None:
    from browser import browser

    with TemporaryDirectory() as folder, browser() as chromium:
        file = Path(folder) / "report.html"
        command = [sys.executable, "-m", "doctor", "report", str(MACHINE)]
        subprocess.run([*command, "-q", "--output", f"html={file}"], check=True)
        chromium.open(file, WIDTH)
        (HERE / "report.png").write_bytes(chromium.picture(HEIGHT))


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    console()
    page()
