"""The public surface, a line for each thing that a user's script may rely on.

`.ci/update` adds what is new to the recorded one and removes nothing: a line whose thing is gone
fails a test, until somebody restores the old spelling or deletes the line by hand.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterator

from man_pages import parsed
from paths import ROOT

import preflight_doctor
from doctor import catalog
from doctor.cli.app import EVERY
from doctor.collect import early
from doctor.judge.check import Status
from doctor.judge.families import FAMILIES
from doctor.report.formats import explanation_json
from doctor.report.formats import json as report_json
from doctor.report.formats.table import FORMATS
from doctor.report.report import Report

FILE = ROOT / "tests/surface.txt"


def text() -> str:
    """What is recorded, and what is new."""
    return "".join(f"{line}\n" for line in sorted({*recorded(), *current()}))


def recorded() -> list[str]:
    """The lines of the file."""
    return FILE.read_text("utf-8").splitlines() if FILE.exists() else []


def current() -> set[str]:
    """The lines that hold now."""
    return {*_names(), *_flags(), *_python(), *_schemas()}


def _names() -> Iterator[str]:
    for check in catalog.CHECKS:
        yield from (f"code {check.code} {name}" for name in (check.slug, *check.aliases))
    yield from (f"family {family}" for family in FAMILIES)
    yield from (f"status {status}" for status in Status)
    yield from (f"format {name}" for name in FORMATS)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    yield from (f"script {name}" for name in project["scripts"])
    yield from (f"variable {name}" for name in early.VARIABLES)
    yield from (f"extra {name}" for name in project["optional-dependencies"])


def _flags() -> Iterator[str]:
    for name in EVERY:
        yield f"command {name}"
        for param in parsed(name).params:
            if param.param_type_name != "option":
                continue
            for flag in (*param.opts, *param.secondary_opts):
                yield f"flag {name} {flag}"
            if "|" in (param.metavar or ""):
                for choice in param.metavar.split("|"):
                    yield f"flag {name} {param.opts[0]} {choice}"


def _python() -> Iterator[str]:
    for name in preflight_doctor.__all__:
        yield f"python preflight_doctor.{name}"
        value = getattr(preflight_doctor, name)
        if inspect.isfunction(value):
            for parameter in inspect.signature(value).parameters.values():
                yield f"python preflight_doctor.{name} {parameter.name}"
    yield from (f"python Settings {name}" for name in preflight_doctor.Settings.__annotations__)
    public = [name for name in dir(Report) if not name.startswith("_")]
    documented = (ROOT / "docs/python.md").read_text("utf-8")
    yield from (f"python Report.{name}" for name in public if f"`{name}`" in documented)


def _schemas() -> Iterator[str]:
    schemas = report_json.schemas() | {"explanation": explanation_json.schema()}
    for form, schema in schemas.items():
        for title, record in {form: schema, **schema.get("$defs", {})}.items():
            for field in record.get("properties", ()):
                yield f"json {form} {title}.{field}"
            for word in record.get("enum", ()):
                yield f"json {form} {title} {word}"
    from doctor.job.file import tables

    for title, table in tables.schema()["$defs"].items():
        yield from (f"job-file {title}.{field}" for field in table.get("properties", ()))
