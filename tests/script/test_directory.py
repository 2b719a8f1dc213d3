"""Which files of a directory are linted: what git would list, read without git."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from doctor.script.directory import Listing
from doctor.script.discover import discover
from doctor.script.gitignore import ignored, read_patterns

NAMES = ("a", "b", "ab", "a.py", "b.py", "x.log", "data", "src", "a b", "[x]", "é.py")
GLOBS = (
    "a",
    "b",
    "*.py",
    "/a",
    "a/",
    "*",
    "!*/",
    "!*.py",
    "!a",
    "!a/",
    "a/**",
    "**/b",
    "a/*",
    "!a/b",
    "/*",
    "/**",
    "**",
    "**/",
    "*/",
    "a/**/b",
    "!a/a.py",
    "x*",
    "?",
    "[ab]",
    "[!a]",
    "!b.py",
    "src/*.py",
    "data/",
    "/data/*",
    "!/data/a.py",
    "#c",
    "\\#c",
    "\\!a",
    "a\\ ",
    "a b",
    "a b ",
    "[x]",
    "\\[x]",
    "**/data/**",
    "a**b",
    "*a*",
    "é*",
    "[a",
    "foo\\",
    "a/**/",
    "!**/",
    "/",
    "//",
    "/",
    "//",
    "[]a]",
    "[^a]*",
    "[[:alpha:]]",
    "a/b/",
    "!src/**",
    "**/a/b",
    "b/../a",
    "./a",
    "\t",
    " a",
)
GIT = shutil.which("git")


def plant(root: Path, *files: str, **contents: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(contents.get(name, ""))


def listing(path: Path | str) -> list[str]:
    found = Listing(lambda name: True)
    found.add(str(path))
    return sorted(os.path.relpath(file, path) for file in found.files)


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("*.log\n!keep.log\n", ["a.py", "keep.log", "sub/a.py"]),
        ("/a.py\n", ["keep.log", "sub/a.py", "sub/x.log", "x.log"]),
        ("sub/\n!sub/a.py\n", ["a.py", "keep.log", "x.log"]),
        ("sub/*\n!sub/a.py\n", ["a.py", "keep.log", "sub/a.py", "x.log"]),
        ("*\n!*/\n!*.py\n", ["a.py", "sub/a.py"]),
        ("\ufeff*.log\r\n", ["a.py", "sub/a.py"]),
        ("[\n# comment\n\n*.log", ["a.py", "sub/a.py"]),
    ],
)
def test_a_gitignore_leaves_files_out(tmp_path: Path, lines: str, left: list[str]) -> None:
    plant(tmp_path, "a.py", "x.log", "keep.log", "sub/a.py", "sub/x.log")
    (tmp_path / ".gitignore").write_text(lines, "utf-8", newline="")
    assert [name for name in listing(tmp_path) if name != ".gitignore"] == left


def test_the_deepest_file_of_patterns_decides(tmp_path: Path) -> None:
    plant(tmp_path, ".git/info/exclude", "a.py", "sub/a.py", "sub/deep/a.py")
    (tmp_path / ".git/info/exclude").write_text("a.py\n")
    (tmp_path / "sub/.gitignore").write_text("!/a.py\n")
    assert listing(tmp_path) == ["sub/.gitignore", "sub/a.py"]
    assert listing(tmp_path / "sub") == [".gitignore", "a.py"]


def test_a_directory_that_is_named_is_read_though_it_is_ignored(tmp_path: Path) -> None:
    plant(tmp_path, ".git/HEAD", "data/sub/a.py", "node_modules/b.py")
    (tmp_path / ".gitignore").write_text("data/\n")
    assert listing(tmp_path) == [".gitignore"]
    assert listing(tmp_path / "data/sub") == ["a.py"]
    assert listing(tmp_path / "node_modules") == ["b.py"]


def test_environments_and_other_repositories_are_left_out(tmp_path: Path) -> None:
    plant(tmp_path, ".git/HEAD", "env/pyvenv.cfg", "env/a.py", "conda/conda-meta/x", "conda/a.py")
    plant(tmp_path, "module/.git", "module/a.py", "train.py")
    assert discover([str(tmp_path)]).scripts == (str(tmp_path / "train.py"),)
    (note,) = discover([str(tmp_path)]).notes
    assert note.startswith(f"not read: {tmp_path / 'module'} (a repository of its own")
    assert listing(tmp_path / "module") == [".git", "a.py"]


def test_what_a_gitignore_leaves_out_is_named(tmp_path: Path) -> None:
    """It may be tracked all the same: only the index knows. No ignored directory is opened."""
    plant(tmp_path, ".git/HEAD", "output/deep/train.py", ".idea/a.py", "run.py", "x.log", "a.py")
    plant(tmp_path, "node_modules/b.py", "env/pyvenv.cfg", "env/c.py")
    lines = "output/\n.idea/\nnode_modules/\nenv/\nrun.py\n*.log\n"
    (tmp_path / ".gitignore").write_text(lines)
    files = discover([str(tmp_path)])
    assert files.scripts == (str(tmp_path / "a.py"),)
    assert sorted(files.notes) == [
        f"not read: {tmp_path / 'output'}, {tmp_path / '.idea'} "
        "(a directory that .gitignore or info/exclude leaves out; name it to lint it)",
        f"not read: {tmp_path / 'run.py'} "
        "(a file that .gitignore or info/exclude leaves out; name it to lint it)",
    ]


def test_of_many_files_that_are_left_out_some_are_named(tmp_path: Path) -> None:
    plant(tmp_path, *(f"{number}.py" for number in range(9)))
    (tmp_path / ".gitignore").write_text("*.py\n")
    (note,) = discover([str(tmp_path)]).notes
    assert "4.py and 4 more (a file that .gitignore" in note


def test_a_directory_of_repositories_is_read(tmp_path: Path) -> None:
    """The patterns of each begin at its root."""
    plant(tmp_path, "one/.git/HEAD", "one/a.py", "one/b.py", "two/.git/HEAD", "two/a.py")
    (tmp_path / ".gitignore").write_text("a.py\n")
    (tmp_path / "one/.gitignore").write_text("/b.py\n")
    assert discover([str(tmp_path)]).scripts == tuple(
        str(tmp_path / each) for each in ("one/a.py", "two/a.py")
    )


def test_patterns_that_cost_too_much_are_not_applied(tmp_path: Path) -> None:
    """Of `*a*a*a...b`, an expression would try every way to distribute the letters."""
    (tmp_path / ".gitignore").write_text("*a" * 30 + "b\n" + "**/a/" * 30 + "b\n*.log\n")
    plant(tmp_path, "a" * 250 + ".py", "x.log")
    files = discover([str(tmp_path)])
    assert len(files.scripts) == 1
    assert files.notes == ("patterns of .gitignore that are not applied: 2",)


def test_what_is_no_regular_file_holds_no_patterns(tmp_path: Path) -> None:
    plant(tmp_path, "a.py", "patterns")
    (tmp_path / "patterns").write_text("a.py\n")
    (tmp_path / ".gitignore").symlink_to("patterns")
    assert read_patterns(str(tmp_path / ".gitignore"), "") is None
    (tmp_path / ".gitignore").unlink()
    os.mkfifo(tmp_path / ".gitignore")
    assert discover([str(tmp_path)]).scripts == (str(tmp_path / "a.py"),)


def test_a_tree_deeper_than_the_stack_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(1_500):
        os.mkdir("d")
        os.chdir("d")
    Path("a.py").touch()
    os.chdir(tmp_path)
    found = discover(["."]).scripts
    subprocess.run(["rm", "-rf", "d"], check=True)  # pytest's own removal is recursive
    assert found == ("d/" * 1_500 + "a.py",)


@pytest.mark.skipif(GIT is None, reason="no git")
@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 120))]
)
def test_random_trees_are_listed_as_git_lists_them(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    subprocess.run([str(GIT), "init", "-q", tmp_path], check=True)
    grow(tmp_path, 3, chance)
    if not seed % 3:
        (tmp_path / ".git/info/exclude").write_text("\n".join(chance.choices(GLOBS, k=2)))
    command = [str(GIT), "ls-files", "-z", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert listing(tmp_path) == sorted(filter(None, done.stdout.decode().split("\0")))


def grow(directory: Path, depth: int, chance: random.Random) -> None:
    for name in chance.sample(NAMES, chance.randint(2, 6)):
        if depth and "." not in name and chance.random() < 0.5:
            (directory / name).mkdir()
            grow(directory / name, depth - 1, chance)
        else:
            (directory / name).touch()
    if depth == 3 or chance.random() < 0.3:
        lines = "\n".join(chance.choices(GLOBS, k=chance.randint(1, 5)))
        (directory / ".gitignore").write_text(lines + chance.choice(("", "\n", "\r\n")))


def test_a_pattern_matches_whole_paths(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n!a/\n")
    patterns = read_patterns(str(tmp_path / ".gitignore"), "")
    assert patterns is not None
    assert ignored("a/x.log", (patterns,))
    assert not ignored("a/", (patterns,))
