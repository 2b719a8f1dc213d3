"""Whether the nodes see one directory: one writes a file there, and all look for it."""

from __future__ import annotations

import os

import msgspec

from doctor._util.records import Ended
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children
from doctor.facts.meeting import Shared
from doctor.fleet.messages import Reply
from doctor.fleet.orders import Orders, opened, order, reply

SECONDS = 8.0
"""For one file on one node: a dead mount does not answer."""


class Token(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of a file, and what is in it."""

    name: str
    text: str


class Seen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a node found; "" as problem if it is the same."""

    path: str
    problem: str = ""


def look_for(path: str | None, content: msgspec.Raw) -> Reply:
    """Look for rank 0's file in this node's own directory; only there, whatever the order says."""
    token = msgspec.json.decode(content, type=Token)
    if path is None:
        return reply(Seen(path="", problem="no --output-dir was given on this node"))
    answer = _probe("read", path, token)
    if not answer.ended.ok:
        problem = answer.ended_with_stage.detail or answer.ended.how
    else:
        same = (answer.answer or {}).get("text") == token.text
        problem = "" if same else "the file has another content"
    return reply(Seen(path=path, problem=problem))


def share(orders: Orders, labels: dict[int, str], path: str) -> Shared:
    """Write a file to a directory that the user named, have all look for it, and remove it."""
    token = Token(name=f".doctor-shared-{os.urandom(16).hex()}", text=os.urandom(16).hex())
    written = _probe("write", path, token).ended
    if not written.ok:
        return Shared(path=path, written=written)
    try:
        replies = orders.ask({rank: order("token", token) for rank in orders.ranks}, SECONDS + 2)
    finally:
        _probe("remove", path, token)
    found = {labels[rank]: opened(each, Seen) for rank, each in replies.items()}
    unseen = {node: seen.problem[:300] for node, seen in found.items() if seen and seen.problem}
    return Shared(
        path=path,
        written=Ended(how="ok"),
        seen=tuple(node for node, seen in found.items() if seen and not seen.problem),
        unseen=unseen,
        silent=tuple(node for node, seen in found.items() if seen is None),
    )


def _probe(do: str, path: str, token: Token) -> Answer:
    children = Children()
    try:
        return children.run_probe("shared", do, path, token.name, token.text, seconds=SECONDS)
    finally:
        children.interrupt()
