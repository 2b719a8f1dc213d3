"""Addresses as text: recognised, and redacted of every secret."""

from __future__ import annotations

import re

ADDRESS = re.compile(
    r"(?P<chain>(?:[A-Za-z]\w+::)*)(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<rest>.*)", re.DOTALL
)
_INSIDE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^\s'\"<>]+")
_QUERY = re.compile(r"[?&][^\s'\"<>=]+=[^\s'\"<>]*")


def is_address(text: str) -> bool:
    """Whether it is an address and no path: it begins with a scheme and ://."""
    return ADDRESS.match(text) is not None


def redact_url(text: str) -> str:
    """An address without user, password, query and fragment. Paths stay as they are."""
    match = ADDRESS.match(text)
    if match is None:
        return text
    rest = match["rest"]
    if match["scheme"].lower() == "hf":  # the @ of hf://org/model@revision holds no secret
        return f"{match['scheme']}://{_without_query(rest)}"
    host, slash, path = rest.partition("/")
    return f"{match['scheme']}://{_without_query(host.rpartition('@')[2] + slash + path)}"


def _without_query(text: str) -> str:
    return re.split(r"[?#]", text, maxsplit=1)[0]


def redact_urls(text: str) -> str:
    """A text in which every address is redacted, and queries that stand alone are omitted."""
    return _QUERY.sub("", _INSIDE.sub(lambda match: redact_url(match[0]), text))


def describe_error(error: BaseException) -> str:
    """An error's type and first line, cut to 200 characters, with every address redacted."""
    lines = str(error).strip().splitlines()
    text = redact_urls(lines[0]) if lines else ""
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
