"""Elements of HTML. A text becomes markup in one place, `el`, so that none is left unescaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from doctor._util.units import visible

VOID = frozenset({"meta", "rect", "br"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | Iterable["Child"]


def el(name: str, *children: Child, **attributes: str) -> Markup:
    """An element. `class_` is class, `aria_label` aria-label; an empty value leaves the name."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
    )
    if name in VOID:
        return Markup(f"<{name}{said}>" if name != "rect" else f"<{name}{said}/>")
    return Markup(f"<{name}{said}>{joined(children)}</{name}>")


def joined(children: Iterable[Child]) -> Markup:
    """Elements and texts one after the other."""
    return Markup("".join(_child(child) for child in children))


def _child(child: Child) -> str:
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return _escaped(child, quote=False)
    return joined(child)


def _escaped(text: str, *, quote: bool = True) -> str:
    return escape(visible(text, keep="\n"), quote=quote)
