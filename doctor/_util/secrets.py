"""Passwords and tokens, hidden in argument lists and in text before either is stored or printed.

The names of a machine and of its user are another matter: `doctor.report.redaction`.
"""

from __future__ import annotations

import functools
import os
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

HIDDEN = "[redacted]"

Kind = Literal["password", "token", ""]
"""Of a name: its value is hidden always, unless it is a number or a switch, or not at all."""

_PASSWORDS = re.compile(
    r"password|passwd|passphrase|passcode|secret|credential|apikey|accesskey|privatekey"
)
_SHORT_PASSWORD = re.compile(r"\w*pwd?|creds?")
_TOKEN = re.compile(r"\w*tokens?|\w*keys?|\w*auth|authorization|bearer|\w*pass|pat")
"""The last word of a name."""
_NO_TOKEN = frozenset({"bypass", "compass", "monkey", "hotkey"})
_ORDINARY = frozenset(
    {
        "audio", "begin", "bos", "cls", "column", "end", "eos", "feature", "foreign", "image",
        "input", "label", "mask", "max", "min", "new", "num", "pad", "primary", "prompt", "public",
        "sep", "sort", "special", "start", "stop", "target", "text", "unk", "video",
    }
)  # fmt: skip
"""Words before "token" and "key" with which neither is a secret: --pad-token, --sort-key."""
_SWITCHES = frozenset({"no", "skip", "enable", "disable", "require"})
"""First words of flags that take no value: --no-auth."""
_ELSEWHERE = frozenset(
    {"file", "path", "dir", "directory", "sock", "py", "json", "toml", "yaml", "yml", "txt", "md"}
)
"""Last words of names that say where a secret is kept, or that are a file's."""
_NOT_SECRET = frozenset({"PWD", "OLDPWD"})
"""The working directory."""
_WORD = re.compile(r"[a-z]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PLAIN = re.compile(
    r"[-+]?\d{0,5}(?:\.\d*)?(?:[eE][-+]?\d+)?|true|false|yes|no|on|off|none|null|auto",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[]|(?:self|args|cfg|config|opts?|options|settings|os|env)\.\w"
)
"""Python that computes a value."""

_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:hf_|r8_)(?:[A-Za-z0-9]{16,}|(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{1,15}(?=\.\.\.|…|\Z))"
    r"|(?:gh[opsur]_|github_pat_|dckr_pat_|wandb_v1_|[srp]k_live_|glpat-|sk-|xox[abprs]-|xapp-"
    r"|nvapi-|pypi-|ya29\.)(?:[A-Za-z0-9_-]{16,}|(?=[a-z_-]*[A-Z0-9])[A-Za-z0-9_-]{1,15}(?=\.\.\.|…|\Z))"
    r"|(?:AKIA|ASIA|AIza)[A-Za-z0-9_-]{12,}"
    r"|eyJ[A-Za-z0-9_.-]{12,}"
    r")|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!----))*(?:-----END [A-Z ]{0,30}-----)?"
)
"""Tokens by their beginnings, also where a quotation ends within one, and private keys."""
_ADDRESS = re.compile(r"://[^\s'\"<>]+")
_USER = re.compile(r"(?<=://)[^/]+(?=@)")
_HEADER = re.compile(r"(\b[Bb]earer +|\b[Aa]uthorization: +\w+ +)[\w.~+/=-]{6,}")
_ASSIGNED = re.compile(
    r"(?i:pass|pw|secret|token|key|auth|cred|bearer|pat)[\w.-]{0,40}"
    r"(?P<between>\\?[\"']?\]? {0,2}(?:=(?!=)|:(?![:/])) {0,2}|[\"'], ?| +)[bfr]{0,2}"
    r"(?:(?P<quote>\\?[\"'])(?P<quoted>[^\n\"'\\]{0,64})|(?P<bare>[^\s\"'&\\]{1,64}))"
)
"""The end of a name that may be a secret's, and the beginning of what follows it."""
_REST = {"quoted": re.compile(r"[^\n\"'\\]*"), "bare": re.compile(r"[^\s\"'&\\]*")}
_HINT = re.compile(
    r"://|hf_|r8_|gh[opsur]_|[srp]k_live_|sk-|glpat|xox|xapp|nvapi|pypi|ya29|AKIA|ASIA|AIza|eyJ"
    r"|(?i:pass|pw|secret|token|key|auth|cred|bearer|pat)"
)
"""What every text with a secret contains."""
_NAME = string.ascii_letters + string.digits + "_.-"
_LONGEST_NAME = 64
_SHORTEST = 8
"""Characters of a variable's value that is hidden wherever it stands."""


def kind_of(name: str) -> Kind:
    """What a flag, a variable or a key of this name holds: `--hub_token`, `PGPASSWORD`, `api.key`.

    Names are judged by their words: `--tokenizer`, `--max-tokens` and `--keep` hold no secret.
    """
    words = _WORD.findall(_CAMEL.sub("_", name).lower())
    if not words or name in _NOT_SECRET or words[-1] in _ELSEWHERE or words[0] in _SWITCHES:
        return ""
    if _PASSWORDS.search("".join(words)) or any(map(_SHORT_PASSWORD.fullmatch, words)):
        return "password"
    ordinary = len(words) > 1 and words[-2] in _ORDINARY
    is_token = _TOKEN.fullmatch(words[-1]) and words[-1] not in _NO_TOKEN and not ordinary
    return "token" if is_token else ""


def hide_in_arguments(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a command line, also `--password VALUE` in two words, and `NAME=VALUE`."""
    hidden: list[str] = []
    flag = ""
    """The flag that the next word belongs to, if its value is a secret."""
    for word in words:
        if flag and not _is_flag(word):
            hidden.append(HIDDEN if _is_secret(kind_of(flag), word) else word)
            flag = flag if flag.endswith("s") else ""
            continue
        name, equals, value = word.partition("=")
        is_name = " " not in name and "/" not in name
        flag = word if is_name and not equals and word.startswith("-") and kind_of(word) else ""
        if equals and is_name and _is_secret(kind_of(name), value):
            hidden.append(f"{name}={HIDDEN}")
        else:
            hidden.append(hide_secrets(word))
    return tuple(hidden)


def _is_flag(word: str) -> bool:
    return word.startswith("--") or (len(word) == 2 and word[0] == "-" and word[1].isalpha())


def _is_secret(kind: Kind, value: str) -> bool:
    if not kind or not value or value.startswith(HIDDEN[:-1]):
        return False
    return kind == "password" or not _PLAIN.fullmatch(value)


def hide_secrets(text: str) -> str:
    """The text without tokens of known shapes, credentials and queries of addresses, values that
    are assigned to names such as `password`, `HF_TOKEN` or `--api-key`, and values of this
    process's variables of such names. Takes linear time.
    """
    if own := _own_values():
        text = own.sub(HIDDEN, text)
    if not _HINT.search(text):
        return text
    text = _SHAPES.sub(HIDDEN, text)
    text = _ADDRESS.sub(_hide_in_address, text)
    text = _HEADER.sub(rf"\1{HIDDEN}", text)
    return "".join(_without_assigned(text))


def _hide_in_address(match: re.Match[str]) -> str:
    """The address without user, password and query."""
    address = _USER.sub(HIDDEN, match[0])
    before, question, query = address.partition("?")
    return f"{before}?{HIDDEN}" if question and query else address


def _without_assigned(text: str) -> Iterator[str]:
    """The parts of the text, with a secret's value replaced. A rejected value is read again: it
    may begin with the name of a secret.
    """
    written = searched = 0
    while match := _ASSIGNED.search(text, searched):
        group = "quoted" if match["quote"] else "bare"
        if not _is_assigned(match, match[group]):
            searched = match.start("between")
            continue
        yield text[written : match.start(group)] + HIDDEN
        rest = _REST[group].match(text, match.end(group))
        written = searched = rest.end() if rest else match.end(group)
    yield text[written:]


def _is_assigned(match: re.Match[str], value: str) -> bool:
    """Whether a name and what follows it are a secret's: a flag, an assignment or an entry."""
    before = match.string[max(0, match.start() - _LONGEST_NAME) : match.start("between")]
    name = before[len(before.rstrip(_NAME)) :]
    kind, between = kind_of(name), match["between"]
    if not _is_secret(kind, value):
        return False
    if between.isspace() or "," in between:
        return name.startswith("-") and not value.startswith("-")
    certain = kind == "password" or "token" in name.lower() or _is_opaque(value)
    if match["quote"]:
        return certain
    if "=" in between:
        return certain and name != value.rstrip(")],;}") and not _CODE.match(value)
    ends_line = match.string[match.end() : match.end() + 1] in ("", "\n") and between[-1] == " "
    return _is_opaque(value) or (kind == "password" and ends_line)


def _is_opaque(value: str) -> bool:
    """Whether it is no word of prose: it has letters, digits and a length."""
    return len(value) >= 6 and any(map(str.isdigit, value)) and any(map(str.isalpha, value))


@functools.cache
def _own_values() -> re.Pattern[str] | None:
    return pattern_of_values(os.environ)


def pattern_of_values(environ: Mapping[str, str]) -> re.Pattern[str] | None:
    """The values of variables that hold secrets, as whole words; None without one.

    Paths, numbers and short values are not among them: they stand in text for other reasons.
    """
    values = {
        value
        for name, value in environ.items()
        if _is_secret(kind_of(name), value)
        and len(value) >= _SHORTEST
        and not value.startswith(("/", "~", "."))
    }
    alternatives = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)") if values else None
