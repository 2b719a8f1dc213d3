"""The documents: their commands parse, their recipes are valid, the action runs."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer.main
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from paths import ROOT

import doctor
from doctor import catalog
from doctor.cli.app import command_line
from doctor.facts.facts import decode
from doctor.judge.check import Status
from doctor.judge.engine import examine

DOCS = ROOT / "docs"
RECIPES = sorted(DOCS.glob("recipes/*"))
USERS = [*sorted(DOCS.glob("users/*.md")), DOCS / "assistants.md"]
TEXTS = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *USERS[:-1], *RECIPES]

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the documents are not at hand")


COMMANDS = typer.main.get_command(command_line()).commands  # type: ignore[attr-defined]


def commands(text: str) -> list[list[str]]:
    """Each command line that begins with `doctor` in a text, without what a shell adds."""
    joined = re.sub(r"\\\n\s*", " ", text)
    matches = re.findall(
        rf"(?:^|[ /'(`])doctor ((?:{'|'.join(COMMANDS)})(?![\w:-])[^\n#|&;<>`]*)", joined, re.M
    )
    lines = []
    for line in matches:
        try:
            lines.append(shlex.split(line.rstrip("'")))
        except ValueError:  # a sentence with an apostrophe
            continue
    return [line for line in lines if len(line) < 2 or re.match(r"[-\w./:]", line[1])]


def flags(command: Any) -> set[str]:
    return {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_flag_that_a_document_names_exists(path: Path) -> None:
    for name, *line in commands(path.read_text("utf-8")):
        command = COMMANDS[name]
        while hasattr(command, "commands") and line:
            command = command.commands[line.pop(0)]
        words = line[: line.index("--")] if "--" in line else line  # the rest is the training's
        flags_used = {word.split("=")[0].rstrip(",.:") for word in words if word[:1] == "-" != word}
        assert flags_used <= flags(command) | {"-h", "--help"}, (name, words)


def test_the_commands_of_the_documents_are_found() -> None:
    parsed = commands((DOCS / "where-it-runs.md").read_text("utf-8"))
    assert ["run", "--context", "prolog"] in parsed
    assert ["run", "--inject", "GPU001"] in parsed


INSTALLS = re.compile(r"(?:pip3?|pipx|uvx?|conda|easy_install)\b[^\n]*")
PLACES = (
    *(
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "action.yml",
        ".ci",
        ".github",
    ),
    *("docs", "doctor", "checks", "schemas", "preflight_doctor", ".pre-commit-hooks.yaml"),
)


def installing() -> list[tuple[str, str]]:
    """Commands that install something, of every document, recipe and message."""
    paths = [ROOT / name for name in PLACES]
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    texts = [
        (str(file.relative_to(ROOT)), file.read_text("utf-8"))
        for file in files
        if file.is_file() and file.suffix not in (".pyc", ".png", ".svg")
    ]
    return [(name, each) for name, text in texts for each in INSTALLS.findall(text)]


def test_nothing_installs_the_distribution_by_its_name() -> None:
    """Nobody owns it on PyPI yet, so a stranger could; git addresses are pinned, all the same."""
    commands = installing()
    assert len(commands) > 40
    for name, command in commands:
        if "uninstall" not in command:
            assert "preflight-doctor" not in command, name
        for address in re.findall(r"git\+[^\s'\"]+", command):
            assert address == doctor.SOURCE, name
    assert sum(doctor.SOURCE in command for _, command in commands) == 6


def test_every_document_has_the_repository_of_the_one_constant() -> None:
    """docs/releasing.md, where the placeholder is explained, keeps it."""
    own = doctor.REPOSITORY.removeprefix("https://github.com/")
    files = [ROOT / name for name in (*PLACES, "CITATION.cff", "release", "website")]
    files = [each for path in files for each in (path.rglob("*") if path.is_dir() else [path])]
    read = [path for path in files if path.is_file() and path.name != "releasing.md"]
    text = {path: path.read_text("utf-8", "replace") for path in read}
    holding = [path for path in text if own in text[path] and path.suffix != ".pyc"]
    assert {path.name for path in holding} >= {"README.md", "CITATION.cff", "gitlab-ci.yml"}
    assert [path.name for path in holding if path.suffix == ".py"] == ["__init__.py"]
    others = set(re.findall(r"OWNER/REPOSITORY", " ".join(text.values()))) - {own}
    assert not others


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_a_recipe_can_be_read_by_its_machine(path: Path) -> None:
    import yaml

    if path.suffix == ".sh":
        subprocess.run(["bash", "-n", str(path)], check=True)
    elif path.suffix == ".json":
        assert json.loads(path.read_text("utf-8"))["plugin"] == "custom"
    elif path.suffix in (".yml", ".yaml"):
        assert all(list(yaml.safe_load_all(path.read_text("utf-8"))))
    elif path.suffix == ".py":
        compile(path.read_text("utf-8"), str(path), "exec")
    else:
        assert path.name == "Dockerfile"


def action() -> dict[str, Any]:
    import yaml

    read: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    return read


def test_the_action_puts_no_input_into_a_command() -> None:
    for step in action()["runs"]["steps"]:
        assert "${{" not in step["run"]
    assert set(action()["outputs"]) == {"verdict", "exit-code", "report"}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a runner; its second job finds what the first has installed."""
    directory = tmp_path_factory.mktemp("runner")
    source = directory / "action"  # pip builds in the source directory
    source.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "action.yml"):
        shutil.copy(ROOT / name, source)
    for name in ("checks", "doctor", "preflight_doctor", "man", "docs/recipes"):
        shutil.copytree(ROOT / name, source / name, symlinks=True)
    link_dependencies(directory / "dependencies")
    return directory


def link_dependencies(folder: Path) -> None:
    """Everything that the doctor requires, which pip would take seconds to install again."""
    folder.mkdir()
    left, linked = ["preflight-doctor"], set()
    while left:
        for line in metadata.distribution(left.pop()).requires or ():
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            marker = requirement.marker
            if name in linked or (marker and not marker.evaluate({"extra": ""})):
                continue
            linked.add(name)
            left.append(name)
            distribution = metadata.distribution(name)
            for top in {file.parts[0] for file in distribution.files or ()}:
                if top not in ("..", "__pycache__"):
                    (folder / top).symlink_to(str(distribution.locate_file(top)))


def run_action(directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Its step as a runner would start it, with the pip of this environment kept out of it."""
    step = action()["runs"]["steps"][0]
    assert step["run"] == 'bash "$GITHUB_ACTION_PATH/docs/recipes/action.sh"'
    (directory / "out").touch()
    (directory / "summary.md").touch()
    runner = {
        "GITHUB_ACTION_PATH": str(directory / "action"),
        "GITHUB_OUTPUT": str(directory / "out"),
        "GITHUB_STEP_SUMMARY": str(directory / "summary.md"),
        "RUNNER_TEMP": str(directory),
        "PIP_NO_COMPILE": "1",
        "PYTHONPATH": str(directory / "dependencies"),
    }
    return subprocess.run(
        ["bash", "-c", step["run"]],
        cwd=directory,
        env=os.environ | runner | variables,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.slow
def test_the_action_runs_and_sets_its_outputs(runner: Path) -> None:
    hostile = "$(touch pwned)"
    done = run_action(
        runner,
        DOCTOR_ARGUMENTS=f"--device=cpu\n--no-smoke\n--only=MEM,DSK\n--output-dir={hostile}\n",
        DOCTOR_FAIL_ON="never",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = dict(re.findall(r"^(.+)<<(?:\w+)\n(.*)\n", (runner / "out").read_text(), re.M))
    assert outputs["verdict"] in ("ready", "fix", "return", "unknown")
    assert Path(outputs["report_html"]).read_text("utf-8").startswith("<!doctype html>")
    assert outputs["exit_code"] == "0"
    named = re.findall(r"steps\.doctor\.outputs\.(\w+)", str(action()["outputs"]))
    assert set(named) == {"verdict", "exit_code", "report_html"} <= set(outputs)
    assert (runner / "summary.md").read_text("utf-8")
    assert not (runner / "pwned").exists()


@pytest.mark.slow
def test_the_action_closes_the_gate(runner: Path) -> None:
    done = run_action(runner, DOCTOR_ARGUMENTS="--device=cpu\n--no-smoke\n--inject=MEM002")
    assert done.returncode == 1, done.stdout + done.stderr


def test_the_checks_that_ran_on_hardware_are_those_of_the_captured_machine() -> None:
    page = (DOCS / "evidence.md").read_text("utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| checks that evaluated"))
    captured = ROOT / "tests/machines/captured/h100_torch2.11.json"
    facts = decode(captured.read_bytes())
    skipped = (Status.SKIP, Status.UNKNOWN)
    ran = {f.check.code for f in examine(catalog.MACHINE_CHECKS, facts) if f.status not in skipped}
    listed = set(re.findall(r"[A-Z]{3}\d{3}", row))
    assert listed
    assert listed <= ran
    assert not {"GPU007", "GPU008"} & listed


WORKFLOWS = sorted((ROOT / ".github").rglob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_pinned_and_has_few_rights(path: Path) -> None:
    """zizmor and actionlint say more: .ci/workflows."""
    import yaml

    read = yaml.safe_load(path.read_text("utf-8"))
    assert read
    for name, comment in re.findall(r"uses: (\S+)(.*)", path.read_text("utf-8")):
        assert name == "./" or re.search(r"@[0-9a-f]{40}$", name), name
        assert name == "./" or re.fullmatch(r" # v\d+\.\d+\.\d+", comment), name
    if path.parent.name == "workflows":
        assert read["permissions"] == {}


def test_the_figures_of_the_readme_are_those_of_the_script() -> None:
    made = runpy.run_path(str(ROOT / "benchmarks/readme_figures.py"))
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    seconds, day = made["figures"]().values()
    assert f"On one H100, on {day}, this took {seconds} beyond `import torch`" in text
    size = made["size_of_one_file"]()
    assert not size or f"one file of {size}" in text


def test_the_list_of_benchmarks_names_each_of_them() -> None:
    listed = set(
        re.findall(r"`(\w+)(?:\.py|/)`", (ROOT / "benchmarks/README.md").read_text("utf-8"))
    )
    there = {path.stem for path in (ROOT / "benchmarks").iterdir() if path.suffix == ".py"}
    there |= {path.parent.name for path in (ROOT / "benchmarks").glob("*/*.py")}
    assert listed == there


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_a_transcript_names_this_version(path: Path) -> None:
    named = re.findall(r"(?m)^doctor (\d+\.\d+\.\d+\w*)$", path.read_text("utf-8"))
    assert set(named) <= {doctor.__version__}


def test_the_readme_names_every_family() -> None:
    rows = re.findall(r"^\| ([A-Z]{3}) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(catalog.HOMES)
