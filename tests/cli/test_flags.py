"""One option set: the same flags, with the same meaning, in every command."""

from __future__ import annotations

import command
import pytest
from flag_table import OTHERS, REPORTS, options

from doctor.cli.meant import ELSEWHERE
from doctor.report.formats.table import FORMATS

EVERYWHERE = (
    *("--format", "--output", "--fail-on", "-q, --quiet", "-v, --verbose", "--color"),
    *("--only", "--skip", "--inject", "--config", "--no-config", "--no-ignores"),
    *("--redact/--no-redact", "--annotate"),
)
FACTS = ("run", "triage", "lint", "prescribe")
"""Commands that can judge something else by a machine's saved facts."""
OTHER_MEANING = {
    ("prescribe", "--format"): "it prints settings: as text or JSON",
    ("ledger", "--format"): "it prints no report",
    ("explain", "--format"): "it prints a text, as Markdown or JSON where asked for",
    ("list", "--format"): "the same",
    ("guard", "--output-dir"): "the records; that of the training is in its own command",
    ("scan", "--facts"): "of the environment that resumes, with --continue",
    ("scan", "--script"): "the one that resumes, with --continue",
    ("scan", "--gpus"): "of the resumed run, with --continue",
    ("rehearse", "--output-dir"): "where {output} is made",
    ("rehearse", "--budget"): "of several runs, which are ended; a time with a unit",
}


@pytest.mark.parametrize("name", REPORTS)
def test_every_command_with_a_report_has_the_flags_of_reports(name: str) -> None:
    assert [flag for flag in EVERYWHERE if flag not in options()[name]] == []


def test_facts_are_judged_where_there_is_a_machine_to_judge_by() -> None:
    judging = {name for name, flags in options().items() if "--facts" in flags}
    assert judging - {name for name, flag in OTHER_MEANING if flag == "--facts"} == set(FACTS)


def test_a_flag_means_the_same_in_every_command() -> None:
    meanings: dict[str, dict[tuple[str, str], list[str]]] = {}
    for name, flags in options().items():
        for flag, option in flags.items():
            if (name, flag) not in OTHER_MEANING:
                meaning = (option.help, str(option.metavar))
                meanings.setdefault(flag, {}).setdefault(meaning, []).append(name)
    assert {flag: each for flag, each in meanings.items() if len(each) > 1} == {}


def test_a_flag_has_the_same_default_in_every_command() -> None:
    defaults: dict[str, set[object]] = {}
    for name, flags in options().items():
        for flag, option in flags.items():
            if (name, flag) not in OTHER_MEANING:
                defaults.setdefault(flag, set()).add(option.default)
    assert {flag: each for flag, each in defaults.items() if len(each) > 1} == {}


def test_every_command_that_prints_has_a_format() -> None:
    assert all("--format" in options()[name] for name in (*REPORTS, *OTHERS))


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["run", "--json"], "--format json"),
        (["lint", "--sarif", "x.py"], "--format sarif"),
        (["guard", "--html", "--", "true"], "--format html"),
        (["scan", "x", "--strict"], "--fail-on warn"),
        (["triage", "--select", "LOG001", "x"], "--only"),
        (["report", "--raw", "x"], "--no-redact"),
        (["read", "--no-color", "x"], "--color never"),
        (["lint", "--no-redcat"], "--no-redact"),
        (["explain", "--version"], "doctor --version"),
        (["init", "--json"], "doctor init --help lists them"),
    ],
)
def test_an_unknown_flag_is_answered_by_its_meaning(words: list[str], meant: str) -> None:
    done = command.doctor(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert meant in done.stderr


def test_what_other_programs_flags_mean_exists() -> None:
    known = {name for flags in options().values() for option in flags.values()
             for name in (*option.opts, *option.secondary_opts)}  # fmt: skip
    meant = {value.split(" ")[0] for value in ELSEWHERE.values()} - {"doctor"}
    assert meant <= known
    assert not ELSEWHERE.keys() & {"--format", "--output", "--only", "--skip"}


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["guard", "--help"], ["help", "guard"]),
        (["-V"], ["--version"]),
        (["help"], ["--help"]),
    ],
)
def test_help_and_version_have_a_short_way(words: list[str], same: list[str]) -> None:
    assert command.doctor(*words).stdout == command.doctor(*same).stdout != ""


@pytest.mark.parametrize("name", [*REPORTS, *OTHERS])
def test_the_help_of_every_command_has_headings(name: str) -> None:
    text = command.doctor(name, "--help").stdout
    assert "\nOutput:\n" in text
    assert "--ignore" not in text.replace("--no-ignores", "")
    assert "--out " not in text


def test_older_words_are_accepted(tmp_path: object) -> None:
    scripts = ["lint", "--no-config", "README.md", "--ignore", "SCR101", "--format", "concise"]
    assert command.doctor(*scripts).stderr == command.doctor(*scripts[:-2]).stderr
    facts = ["prescribe", "--facts", "tests/machines/h200_torch2.11.json"]
    old, new = command.doctor(*facts, "--format", "env"), command.doctor(*facts, "--for", "env")
    assert old.stdout == new.stdout != ""


def test_the_formats_are_named_in_the_help() -> None:
    assert ", ".join(FORMATS) in " ".join(command.doctor("help", "lint").stdout.split())
