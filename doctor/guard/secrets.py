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
_NO_TOKEN = frozenset({"bypass", "compass"})
_KEY = re.compile(r"(\w*?)(?:tokens|keys?)")
"""What is a secret only of somebody: `cache_key`, `n_tokens` and `--keys` are none."""
_OWNERS = frozenset(
    {
        "access", "account", "admin", "anthropic", "api", "auth", "aws", "azure", "bearer",
        "cipher", "cohere", "comet", "crypto", "datadog", "decryption", "deploy", "deployment",
        "encryption", "fernet", "gcp", "gcs", "gemini", "git", "github", "gitlab", "google", "groq",
        "hf", "hmac", "hub", "huggingface", "jwt", "kaggle", "license", "master", "minio",
        "mistral", "neptune", "ngc", "nvidia", "oauth", "openai", "openrouter", "pass", "personal",
        "private", "pypi", "refresh", "rsa", "secret", "signing", "slack", "ssh", "ssl", "stripe",
        "subscription", "tls", "wandb", "webhook",
    }
)  # fmt: skip
"""Words of a name with which a key, and tokens, are a secret: `wandb_key`, `ssh_host_key`."""
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
_AMOUNT = r"\d{1,5}(?:\.\d{1,4})?(?:e[-+]?\d{1,3})?(?:[kmgtb]i?b?|%)?(?:tok(?:ens?)?)?(?:/s)?"
_PLAIN = re.compile(
    rf"[-+]?\d{{0,5}}(?:\.\d*)?(?:e[-+]?\d+)?|{_AMOUNT}(?:/{_AMOUNT})?"
    r"|true|false|yes|no|on|off|none|null|auto",
    re.IGNORECASE,
)
"""Numbers, also with a unit, and switches: 8, 1.2M, 3.2e9tok, 8.1B/300B, 12k/s."""
_CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[]|(?:self|args|cfg|config|opts?|options|settings|os|env)\.\w"
)
"""Python that computes a value."""

_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:hf_|r8_)(?:[A-Za-z0-9]{16,}|"
    r"(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{1,15}(?=\.\.\.|…|\Z))|(?:gh[opsur]_|github_pat_|dckr_pat_|"
    r"wandb_v1_|[srp]k_live_|glpat-|sk-|xox[abprs]-|xapp-|nvapi-|pypi-|"
    r"ya29\.)(?:[A-Za-z0-9_-]{16,}|(?=[a-z_-]*[A-Z0-9])[A-Za-z0-9_-]{1,15}(?=\.\.\.|…|\Z))|(?:AKIA|"
    r"ASIA|AIza)[A-Za-z0-9_-]{12,}|eyJ[A-Za-z0-9_.-]{12,})|-----BEGIN [A-Z ]{0,30}PRIVATE "
    r"KEY-----(?:[^-]|-(?!----))*(?:-----END [A-Z ]{0,30}-----)?"
)
"""Tokens by their beginnings, also where a quotation ends within one, and private keys."""
_ADDRESS = re.compile(r"://[^\s'\"<>]+")
_USER = re.compile(r"(?<=://)[^/]+(?=@)")
_USER_AND_PASSWORD = re.compile(r"://[^/?#@:\[]*:(?!//|\d{1,5}[/?#,])")
"""The beginning of an address with a password, which may contain "@" and "/"; no host and port."""
_LOGIN = r"(?!\w{1,16}://|[A-Za-z]:[\\/]|\d+:\d+(?![^\s\"']))[^\s:\"']{0,64}:"
"""A user before a password; no address, no path of Windows, no numbers of a user and a group."""
_LOGIN_FLAG = re.compile(r"-[uU]|--(?:proxy-)?user")
_LOGIN_WORDS = re.compile(
    rf"((?<![\w-])(?:{_LOGIN_FLAG.pattern})(?:=|[ \t]+|[\"'], ?))"
    rf"(?:([\"']){_LOGIN}[^\n\"']+|{_LOGIN}[^\s\"']+)"
)
_LOGIN_VALUE = re.compile(rf"{_LOGIN}.+", re.DOTALL)
_ENVIRONMENT = frozenset({"-e", "--env", "env"})
"""Before a variable whose value is the whole rest of the word: docker run -e "PASSWORD=a b"."""
_SHELL_WORD = re.compile(r"(?:'[^']*'|\"[^\"]*\"|\S)*")
_HEADER = re.compile(r"(\b[Bb]earer +|\b[Aa]uthorization: +\w+ +)[\w.~+/=-]{6,}")
_LONG_HEX = re.compile(
    r"((?<![\w-])(?<!cache )(?<!public )(?i:key|token|secret)(?: is)?[ \t:=]{1,3})"
    r"[0-9a-fA-F]{32,}(?!\w)"
)
"""A key that prose names, without a sign of assignment."""
_ASSIGNED = re.compile(
    r"(?i:pass|pw|secret|token|key|auth|cred|bearer|pat)[\w.-]{0,40}"
    r"(?P<between>\\?[\"']?\]? {0,2}(?:=(?!=)|:(?![:/])) {0,2}|[\"'], ?| +)"
    r"(?:[bfr]{1,2}(?=\\?[\"']))?"
    r"(?:(?P<quote>\\?[\"'])(?P<quoted>[^\n\"'\\]{0,64})|(?P<bare>[^\s\"'&\\]{1,64}))"
)
"""The end of a name that may be a secret's, and the beginning of what follows it."""
_REST = {"quoted": re.compile(r"[^\n\"'\\]*"), "bare": re.compile(r"[^\s\"'&\\]*")}
_HINT = re.compile(
    r"://|-[uU]|hf_|r8_|gh[opsur]_|[srp]k_live_|sk-|glpat|xox|xapp|nvapi|pypi|ya29|AKIA|ASIA|AIza|"
    r"eyJ|(?i:pass|pw|secret|token|key|auth|cred|bearer|pat)"
)
"""What every text with a secret contains."""
_NAME = string.ascii_letters + string.digits + "_.-"
_LONGEST_NAME = 64
_SHORTEST = 8
"""Characters of a variable's value that is hidden wherever it stands."""


def kind_of(name: str) -> Kind:
    """What a flag, a variable or a key of this name holds: `--hub_token`, `PGPASSWORD`, `api.key`.

    Names are judged by their words: `--tokenizer`, `--max-tokens` and `--sort-key` hold no secret.
    """
    words = _WORD.findall(_CAMEL.sub("_", name).lower())
    if not words or name in _NOT_SECRET or words[-1] in _ELSEWHERE or words[0] in _SWITCHES:
        return ""
    if _PASSWORDS.search("".join(words)) or any(map(_SHORT_PASSWORD.fullmatch, words)):
        return "password"
    ordinary = len(words) > 1 and words[-2] in _ORDINARY
    if not _TOKEN.fullmatch(words[-1]) or words[-1] in _NO_TOKEN or ordinary:
        return ""
    key = _KEY.fullmatch(words[-1])
    return "" if key and _OWNERS.isdisjoint((*words[:-1], key[1])) else "token"


def hide_in_arguments(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a command line, also `--password VALUE` in two words, and `NAME=VALUE`."""
    hidden: list[str] = []
    before = flag = ""
    """The word before, and the flag that the next word belongs to, if its value is a secret."""
    for word in words:
        if flag and not _is_flag(word):
            hidden.append(HIDDEN if _is_secret(kind_of(flag), word) else word)
            flag = flag if flag.endswith("s") else ""
        else:
            hidden.append(_hide_in_word(word, before))
            takes_secret = word.startswith("-") and _is_name(word) and kind_of(word)
            flag = word if takes_secret else ""
        before = word
    return tuple(hidden)


def _is_name(word: str) -> bool:
    return not any(character in word for character in " /=")


def _hide_in_word(word: str, before: str) -> str:
    """A word of a command line without the secret that its name, or the word before it, tells."""
    if _LOGIN_FLAG.fullmatch(before) and _LOGIN_VALUE.fullmatch(word):
        return HIDDEN
    name, equals, value = word.partition("=")
    if not equals or not _is_name(name):
        return hide_secrets(word)
    if _LOGIN_FLAG.fullmatch(name) and _LOGIN_VALUE.fullmatch(value):
        return f"{name}={HIDDEN}"
    if not _is_secret(kind_of(name), value):
        return hide_secrets(word)
    return f"{name}={HIDDEN}{'' if before in _ENVIRONMENT else _command_after(name, value)}"


def _command_after(name: str, value: str) -> str:
    """What follows a variable in the script of a shell: `bash -c "HF_TOKEN=x python train.py"`."""
    first = _SHELL_WORD.match(value) if name.isidentifier() else None
    return hide_secrets(value[first.end() :]) if first else ""


def _is_flag(word: str) -> bool:
    return word.startswith("--") or (len(word) == 2 and word[0] == "-" and word[1].isalpha())


def _is_secret(kind: Kind, value: str) -> bool:
    if not kind or not value or value.startswith(HIDDEN[:-1]):
        return False
    return kind == "password" or not _PLAIN.fullmatch(value.rstrip(")],;}"))


def hide_secrets(text: str) -> str:
    """The text without tokens of known shapes, credentials and queries of addresses, values that
    are assigned to names such as `password`, `HF_TOKEN` or `--api-key`, and values of this
    process's variables of such names. Takes linear time.
    """
    if own := _own_values(len(os.environ)):
        text = own.sub(HIDDEN, text)
    if not _HINT.search(text):
        return text
    text = _SHAPES.sub(HIDDEN, text)
    text = _ADDRESS.sub(_hide_in_address, text)
    text = _LOGIN_WORDS.sub(rf"\1\2{HIDDEN}", text)
    text = _HEADER.sub(rf"\1{HIDDEN}", text)
    text = _LONG_HEX.sub(rf"\1{HIDDEN}", text)
    return "".join(_without_assigned(text))


def _hide_in_address(match: re.Match[str]) -> str:
    """The address without user, password and query."""
    user, _, host = match[0].rpartition("@")
    has_password = _USER_AND_PASSWORD.match(user)
    address = f"://{HIDDEN}@{host}" if has_password else _USER.sub(HIDDEN, match[0])
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
    named = kind == "password" or "token" in name.lower() or "key" in name.lower()
    certain = named or _is_opaque(value)
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
def _own_values(variables: int) -> re.Pattern[str] | None:
    """Read again when the number of variables changes: scripts load .env files."""
    return pattern_of_values(os.environ)


def pattern_of_values(environ: Mapping[str, str]) -> re.Pattern[str] | None:
    """The values of variables that hold secrets, `*_KEY` among them, as whole words; None without.

    Paths, numbers and short values are not among them: they stand in text for other reasons.
    """
    values = {
        value
        for name, value in environ.items()
        if _is_secret("token" if name.endswith("_KEY") else kind_of(name), value)
        and len(value) >= _SHORTEST
        and not value.startswith(("/", "~", "."))
    }
    alternatives = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)") if values else None
