"""The formats of a report: name -> the function that renders it."""

from __future__ import annotations

from collections.abc import Callable

from doctor.report.formats import github, json, junit, markdown, nagios, plain, sarif
from doctor.report.formats.html import page as html
from doctor.report.report import Report

FORMATS: dict[str, Callable[[Report], str]] = {
    "console": plain.render,  # in a file; `terminal` prints it in colour
    "plain": plain.render,
    "json": json.render,
    "junit": junit.render,
    "github": github.render,
    "markdown": markdown.render,
    "sarif": sarif.render,
    "nagios": nagios.render,
    "html": html.render,
}
