"""HTML elements. Text becomes markup in one place, `el`, so that no text is left unescaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from doctor._util.units import visible

VOID = frozenset({"meta", "rect", "br", "line"})
SVG = frozenset({"rect", "line"})
"""Of these, the ones of SVG, which end in a slash."""


class Markup(str):
    """A string that is HTML already."""

    __slots__ = ()


Child = str | Iterable["Child"]


def el(name: str, *children: Child, **attributes: str) -> Markup:
    """An element; `class_` gives the attribute class, `aria_label` aria-label."""
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
    )
    if name in VOID:
        return Markup(f"<{name}{text}>" if name not in SVG else f"<{name}{text}/>")
    return Markup(f"<{name}{text}>{joined(children)}</{name}>")


def joined(children: Iterable[Child]) -> Markup:
    """Elements and texts, concatenated."""
    return Markup("".join(_child(child) for child in children))


def prose(text: str) -> Markup:
    """A text in which what is between backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return joined([text])
    return joined(el("code", part) if number % 2 else part for number, part in enumerate(parts))


def lines(texts: Iterable[str]) -> Markup:
    """Texts, each on a line of its own in preformatted text."""
    return Markup("\n".join(_escaped(text, quote=False) for text in texts))


def _child(child: Child) -> str:
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return _escaped(child, quote=False)
    return joined(child)


def _escaped(text: str, *, quote: bool = True) -> str:
    return escape(visible(text), quote=quote)
