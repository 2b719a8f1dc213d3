"""What a prescription is printed for, and in which format."""

from __future__ import annotations

from typing import Literal, get_args

Form = Literal["text", "python", "loop", "env", "trainer", "accelerate"]
FORMATS = ("plain", "json")


def parse_format(name: str) -> str:
    """A format, or a form, which --format took before --for did. Raises ValueError."""
    if name == "console":
        return "plain"
    if name in (*FORMATS, *get_args(Form)):
        return name
    raise ValueError(f"{name!r} is not one of {', '.join(map(repr, FORMATS))}")


def form_of(format: str) -> Form | None:
    """The form that an older command line asks for with --format."""
    return next((form for form in get_args(Form) if form == format), None)
