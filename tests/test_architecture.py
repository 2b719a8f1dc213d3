"""docs/architecture.md is true: its packages and their order are those of the import contract."""

from __future__ import annotations

import ast
import configparser
import graphlib
import re

import grimp
import pytest
from paths import ROOT

PAGE = ROOT / "docs" / "architecture.md"
CONTRACTS = ROOT / ".importlinter"
ENTERED = (
    "cli", "job", "facts", "collect", "checkpoint", "script", "log", "pasted", "judge", "report",
    "guard", "prescribe", "checks", "errors",
)  # fmt: skip
"""Packages that a newcomer enters."""

pytestmark = pytest.mark.skipif(not CONTRACTS.exists(), reason="the sources are not at hand")


def listed() -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)


def test_the_page_lists_every_package() -> None:
    packages = {path.parent.name for path in (ROOT / "doctor").glob("*/__init__.py")}
    assert sorted(listed()) == sorted(packages)


def test_the_page_lists_the_packages_from_the_top_down() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(CONTRACTS)
    layers = re.findall(r"doctor\.(\w+)", contracts["importlinter:contract:flow"]["layers"])
    names = [name for name in listed() if name in layers]
    assert names == [layer for layer in layers if layer in names]
    assert len(names) == len(layers) - 1  # without __main__


def test_the_picture_names_packages_and_functions_that_exist() -> None:
    picture = PAGE.read_text("utf-8").split("```")[1]
    assert "judge.engine.examine(checks, facts)" in picture
    engine = ast.parse((ROOT / "doctor" / "judge" / "engine.py").read_text("utf-8"))
    (examine,) = [n for n in engine.body if isinstance(n, ast.FunctionDef) and n.name == "examine"]
    assert [argument.arg for argument in examine.args.args] == ["checks", "facts"]
    for name in set(listed()) - {"_util", "checkpoint"}:
        assert re.search(rf"\b{name}\b", picture), name


@pytest.mark.parametrize("package", ENTERED)
def test_a_package_says_what_comes_in_and_what_goes_out(package: str) -> None:
    text = (ROOT / "doctor" / package / "__init__.py").read_text("utf-8")
    docstring = ast.get_docstring(ast.parse(text)) or ""
    assert len(docstring.splitlines()) >= 7
    if package != "guard":
        assert "\nIn: " in docstring
        assert "\nOut: " in docstring


def test_no_module_imports_itself_through_others() -> None:
    """Imports inside functions count, and so does the face of a package beside its modules, which
    the contracts do not compare."""
    graph = grimp.build_graph("doctor", cache_dir=None)
    imports = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    assert len(imports) > 1_000
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError
