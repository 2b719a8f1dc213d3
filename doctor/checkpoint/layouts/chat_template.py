"""Tokens that the chat template ends a turn with."""

from __future__ import annotations

import json
import re
from typing import Any

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, read_whole

FILES = ("chat_template.jinja", "chat_template.json")
LIMIT = 1 << 20
ENDS = re.compile(
    r"<\|(?:[\w-]*_?(?:im_end|eot|eom|eos|end|stop|return)(?:_[\w-]+)?|end[\w-]*)\|>|<end_of_turn>"
)
"""Texts that, by their names, end a turn."""
EOS = re.compile(r"\beos_token\b")


def turn_ends(directory: Directory, settings: dict[str, Any]) -> tuple[str, ...]:
    """The texts with which the template ends turns; () where it ends them with eos_token, too."""
    whole = "\n".join(text for _, text in texts(directory, settings))
    return () if EOS.search(whole) else tuple(dict.fromkeys(ENDS.findall(whole)))[:10]


def texts(directory: Directory, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """The templates of files and of tokenizer_config.json's settings, each with its file."""
    found = [(name, _text(directory, name)) for name in FILES]
    held = settings.get("chat_template")
    each_held = held if isinstance(held, list) else [{"template": held}]
    return found + [
        ("tokenizer_config.json", each["template"])
        for each in each_held
        if isinstance(each, dict) and isinstance(each.get("template"), str)
    ]


def _text(directory: Directory, name: str) -> str:
    try:
        return read_whole(directory, name, LIMIT).decode("utf-8", "replace")
    except CheckpointError:
        return ""


def is_token(text: str, data: bytes) -> bool:
    """Whether a whole tokenizer.json has a token of this text."""
    spelled = (json.dumps(text), json.dumps(text, ensure_ascii=False))
    return any(each.encode() in data for each in spelled)
