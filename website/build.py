"""Writes build/site from docs/ with Sphinx: python website/build.py

Pages are found, not listed: a new docs/*.md is in the navigation. Links between documents become
links between pages, links to other files lead to the repository. A link that leads nowhere is an
error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS, STAGE, SITE = ROOT / "docs", ROOT / "build/pages", ROOT / "build/site"
sys.path.insert(0, str(ROOT))

from doctor.report.addresses import REPOSITORY  # noqa: E402

PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
"""Pages of the repository's root."""
LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?(?P<after>\))")
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
NAMED = {
    'role="heading">': 'role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<div class="highlight"><pre>': '<div class="highlight"><pre tabindex="0">',
    '<aside class="toc-drawer': '<aside aria-label="This page" class="toc-drawer',
}
"""What the theme leaves without a level, a name or a key to reach it."""
ORPHAN = "---\norphan: true\n---\n"
HIDDEN = "\n```{{toctree}}\n:hidden:\n:glob:\n{caption}\n{names}\n```\n"


def page(path: Path) -> Path | None:
    """Where a document is in the stage; None for what is no page."""
    if path.suffix != ".md":
        return None
    if path.parent == ROOT and path.name in PROJECT:
        return STAGE / path.name
    if not path.is_relative_to(DOCS):
        return None
    name = "index.md" if path.name == "README.md" else path.name
    return STAGE / path.relative_to(DOCS).with_name(name)


def linked(text: str, path: Path) -> str:
    """The text with links that hold in the stage."""
    parts = CODE.split(text)
    parts[::2] = [LINK.sub(lambda found: _link(found, path), part) for part in parts[::2]]
    return "".join(parts)


def _link(found: re.Match[str], path: Path) -> str:
    target, anchor = found["target"], found["anchor"] or ""
    if not target or re.match(r"[a-z]+:", target):
        return found[0]
    file = Path(os.path.normpath(path.parent / target))
    staged = page(file / "README.md" if file.is_dir() and page(file / "README.md") else file)
    here = page(path)
    assert here
    if staged and not staged.name.startswith("."):
        target = os.path.relpath(staged, here.parent)
    elif not file.is_relative_to(DOCS):
        target = f"{REPOSITORY}/blob/main/{file.relative_to(ROOT)}"
    return f"{found['before']}{target}{anchor}{found['after']}"


def contents(path: Path) -> str:
    """The navigation, in the order of docs/README.md; pages that it does not name come last."""
    if path != DOCS / "README.md":
        return ""
    named = re.findall(r"\]\(([\w-]+)\.md\)", path.read_text("utf-8"))
    groups = {
        "": [*dict.fromkeys(named), "*"],
        "Who uses it": ["users/*"],
        "Reference": ["checks/index", "errors/index"],
        "Project": [name.removesuffix(".md") for name in PROJECT if (ROOT / name).exists()],
    }
    return "".join(
        HIDDEN.format(caption=f":caption: {title}\n" if title else "", names="\n".join(names))
        for title, names in groups.items()
    )


def text_of(path: Path) -> str:
    """A page of the stage. The tables of codes and errors lead to theirs, the navigation does not:
    with some 300 entries on each page the site takes four minutes to build."""
    below = path.parent.name in ("checks", "errors") and path.name != "README.md"
    return ORPHAN * below + linked(path.read_text("utf-8"), path) + contents(path)


def stage() -> None:
    """Copy what the site is made of."""
    shutil.rmtree(STAGE, ignore_errors=True)
    for path in [*sorted(DOCS.rglob("*")), *(ROOT / name for name in PROJECT)]:
        if path.is_dir() or not path.exists():
            continue
        target = page(path) or STAGE / path.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(text_of(path), "utf-8")
        else:
            shutil.copy(path, target)
    text = (STAGE / "llms.txt").read_text("utf-8").replace("/README.md)", "/index.html)")
    (STAGE / "llms.txt").write_text(text.replace(".md)", ".html)"), "utf-8")


def main() -> int:
    stage()
    shutil.rmtree(SITE, ignore_errors=True)
    options = ["-q", "-W", "--keep-going", "-j", "auto", "-c", str(ROOT / "website")]
    command = [sys.executable, "-m", "sphinx", *options, str(STAGE), str(SITE)]
    code = subprocess.run(command, check=False).returncode
    for path in SITE.rglob("*.html"):
        text = path.read_text("utf-8")
        for tag, named in NAMED.items():
            text = text.replace(tag, named)
        path.write_text(text, "utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
