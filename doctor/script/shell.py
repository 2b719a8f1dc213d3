"""Shell scripts that start trainings: their batch directives, variables and commands.

Nothing is run or expanded but variables that the script itself assigns a plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts.script import Launch, Script, Setting, Span
from doctor.script.launch import CONTINUED, flags_of, words_of
from doctor.script.pipes import piped

LIMIT = 1 << 20
LAUNCHERS = re.compile(
    r"(?:^|[\s;&|(`'\"])(torchrun|accelerate\s+launch|deepspeed|composer|fairscale|"
    r"python[\d.]*\s+(?:-u\s+)?-m\s+torch\.distributed\.(?:run|launch)|python[\d.]*)(?=\s)"
)
DIRECTIVE = re.compile(
    r"#SBATCH\s+(?:--(?P<name>[\w-]+)|-(?P<short>\w))(?:[=\s]\s*(?P<value>.*))?$"
)
LONG = {
    "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "G": "gpus", "t": "time", "o": "output",
    "e": "error", "p": "partition", "J": "job-name",
}  # fmt: skip
ASSIGNMENT = re.compile(r"^\s*(?P<how>export\s+|declare\s+-x\s+|local\s+|readonly\s+)?"
                        r"(?P<name>[A-Za-z_]\w*)=(?P<value>\"[^\"]*\"|'[^']*'|\$\([^)]*\)|"
                        r"\$\{[^}]*\}[^\s;&|]*|[^\s;&|]*)"
                        r"(?P<rest>.*)$")  # fmt: skip
ARRAY = re.compile(r"^[ \t]*(\w+)=\((.{0,4000}?)\)[ \t]*$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(
    r"^[ \t]*(?:export[ \t]+|local[ \t]+)?(\w+)=(?:\"([^\"]{1,4000})\"|'([^']{1,4000})')[ \t]*$",
    re.MULTILINE,
)
PATTERN = re.compile(r"^\s*(?:[^\s()'\"|]+\s*\|\s*)*[^\s()'\"|]+\)(?=\s|$)")
"""One of `case`: --verbose|-v) verbose=1 ;;"""
HERE = re.compile(r"(?<!<)<<-?\s*['\"]?([A-Za-z_]\w*)")
PRINTS = re.compile(r"\s*(?:echo|printf|#)")
READ = re.compile(r"\$(?:\{|\(\([^()\n]*?\b(?<!\$))?([A-Za-z_]\w*)")
"""A variable in $NAME, ${NAME or $((NAME + 1))."""
OPTION = re.compile(rf"(?!{PATTERN.pattern})^\s*--?[a-zA-Z][\w.-]*")


def read_shell(path: str, data: bytes) -> Script | None:
    """The facts of a script that starts a training, None for any other."""
    if len(data) > LIMIT or not LAUNCHERS.search(data.decode("utf-8", "replace")):
        return None
    text = data.decode("utf-8", "replace")
    settings = [
        *_directives(text),
        *_variables(text),
        *_cut(text),
        *_waits(text),
        *piped(text, LAUNCHERS),
    ]
    known = _known_values(settings)
    launches = tuple(_launches(path, text, known))
    return (
        Script(path=path, kind="shell", settings=tuple(settings), launches=launches)
        if launches
        else None
    )


def _known_values(settings: list[Setting]) -> dict[str, str]:
    """The variables that have one value wherever the script sets them."""
    values: dict[str, set[str]] = {}
    for each in settings:
        kind, _, name = each.key.partition(".")
        if kind in ("set", "export"):
            values.setdefault(name, set()).add(str(each.value))
    return {name: found.pop() for name, found in values.items() if len(found) == 1}


def _directives(text: str) -> Iterator[Setting]:
    """sbatch.NAME of lines before the first command, late.NAME of those behind it; a document
    within, as of `sbatch <<EOF`, is a script of its own."""
    begun, end = False, ""
    for number, line in enumerate(text.splitlines(), 1):
        if opened := HERE.search(line):
            begun, end = False, opened[1]
        elif end and line.strip() == end:
            begun, end = True, ""
        elif match := DIRECTIVE.match(line):
            name = match["name"] or LONG.get(match["short"], match["short"])
            value = (match["value"] or "").partition(" #")[0].strip()
            yield Setting(f"{'late' if begun else 'sbatch'}.{name}", value, _line(number, line))
        elif line.strip() and not line.lstrip().startswith("#"):
            begun = True


def _variables(text: str) -> Iterator[Setting]:
    """export.NAME and set.NAME of assignments that stand alone on their line; read.NAME beside one
    whose value the script uses."""
    lines = [line.split() for line in text.splitlines()]
    names = {name for words in lines if words[:1] == ["export"] for name in words[1:]}
    read = {n for line in text.splitlines() if not PRINTS.match(line) for n in READ.findall(line)}
    everything = re.search(r"^\s*set\s+-(?:a|o\s+allexport)", text, re.MULTILINE) is not None
    raw = text.splitlines()
    for number, line in enumerate(raw, 1):
        match = ASSIGNMENT.match(line)
        if _continues(raw, number - 2):  # an argument of the command above
            continue
        if match is None or (match["rest"].strip() and not re.match(r"\s*[;#]", match["rest"])
                             and not match["how"]):  # fmt: skip
            continue
        kind = "export" if match["how"] or match["name"] in names or everything else "set"
        yield Setting(f"{kind}.{match['name']}", match["value"].strip("\"'"), _line(number, line))
        if match["name"] in read:
            yield Setting(f"read.{match['name']}", None, _line(number, line))


def _cut(text: str) -> Iterator[Setting]:
    """Where a command ends although its options go on."""
    lines = text.splitlines()
    inside = _within_brackets(lines)
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True), 1):
        if line.lstrip().startswith("#") and not _continues(lines, number - 2):
            continue
        goes_on = OPTION.match(following)
        if re.search(r"\\[ \t]+$", line) and goes_on:
            yield Setting("cut.blank", line.strip()[-40:], _line(number, line))
        elif line.lstrip().startswith("#") and goes_on and _continues(lines, number - 2):
            yield Setting("cut.comment", line.strip()[:40], _line(number, line))
        elif goes_on and following.lstrip().startswith("--") and _is_option_or_start(line) and (
            not line.rstrip().endswith(("\\", "|", "&&", "(")) and not inside[number]
        ):  # fmt: skip
            yield Setting("cut.backslash", line.strip()[-40:], _line(number, line))


def _waits(text: str) -> Iterator[Setting]:
    """wait, which holds the script until its background commands end."""
    if re.search(r"^\s*(?:wait|tail -f|sleep infinity)\b|&&\s*wait|;\s*wait", text, re.MULTILINE):
        yield Setting("waits", True, Span(1, 1, 1, 2))


def _is_option_or_start(line: str) -> bool:
    return bool(line.strip()) and (
        OPTION.match(line) is not None or LAUNCHERS.search(line) is not None
    )


def _continues(lines: list[str], index: int) -> bool:
    return index >= 0 and lines[index].rstrip().endswith("\\")


def _within_brackets(lines: list[str]) -> list[bool]:
    """Whether the line behind each number is within an array, quotes or a here-document."""
    found, depth, quoted, document = [False], 0, "", ""
    for line in lines:
        if document:
            document = "" if line.strip() == document else document
        elif here := re.search(r"<<-?\s*['\"]?(\w+)", line):
            document = here[1]
        else:
            quoted, opened = _quoted(line, quoted)
            depth = max(depth + opened, 0)  # a pattern of case closes what nothing opened
        found.append(depth > 0 or bool(quoted) or bool(document))
    return found


def _quoted(line: str, quoted: str) -> tuple[str, int]:
    """The quote that is open behind a line, and how many brackets it opens."""
    opened, before = 0, " "
    line = line if quoted else PATTERN.sub("", line)
    for sign in re.sub(r"\\.", "", line):
        if sign in "'\"" and quoted in ("", sign):
            quoted = "" if quoted else sign
        elif not quoted and sign == "#" and before.isspace():
            break
        elif not quoted:
            opened += (sign == "(") - (sign == ")")
        before = sign
    return quoted, opened


def _launches(path: str, text: str, known: dict[str, str]) -> Iterator[Launch]:
    """Commands with a launcher, their variables and arrays replaced."""
    arrays = {name: body for name, body in ARRAY.findall(text)}
    held = _held_commands(text, arrays)
    lines, current, started = text.splitlines(), "", 1
    inside = _within_brackets(lines)
    for number, each in enumerate(text.splitlines(keepends=True), 1):
        started = number if not current else started
        current += each
        if re.search(r"\\\r?\n?$", each):
            continue
        command, current = _with_held(current, held), ""
        stripped = command.lstrip()
        if stripped.startswith("#") or not (match := LAUNCHERS.search(command)):
            continue
        if (name := ASSIGNMENT.match(command)) and (
            not re.search(r"\s(?:torchrun|python|srun)", command)
            or (name["name"] in held and re.search(rf"\$\{{?{name['name']}\b", text))
        ):
            continue
        before = _opened(lines, inside, started)
        yield _launch(path, started, before + command, match, len(before), known, arrays)


def _held_commands(text: str, arrays: dict[str, str]) -> dict[str, str]:
    """Variables that hold a launcher: LAUNCH="torchrun --nnodes=2", or an array."""
    found = {name: one or two for name, one, two in COMMAND.findall(text)}
    found |= {name: " ".join(body.split()) for name, body in arrays.items()}
    return {
        name: CONTINUED.sub(" ", value).replace("\n", " ")
        for name, value in found.items()
        if LAUNCHERS.search(f" {value} ")
    }


def _with_held(command: str, held: dict[str, str]) -> str:
    """A command in which such a variable stands by the text that it holds."""
    for name, value in held.items():
        plain = rf"\$(?:{name}\b|\{{{name}(?:\[@\])?\}})"
        use = re.compile(rf"\"{plain}\"|{plain}")
        if not re.match(rf"\s*(?:echo|printf|export|local)\b|\s*{name}=", command):
            command = use.sub(lambda _, value=value: value, command)  # type: ignore[misc]
    return command


def _opened(lines: list[str], inside: list[bool], number: int) -> str:
    """The lines since the quotes opened that this line stands in: srun bash -c '."""
    first = number
    while first > 1 and inside[first - 1]:
        first -= 1
    return "".join(f"{line}\n" for line in lines[first - 1 : number - 1])


def _launch(
    path: str,
    line: int,
    command: str,
    match: re.Match[str],
    before: int,
    known: dict[str, str],
    arrays: dict[str, str],
) -> Launch:
    plain = CONTINUED.sub(" ", command[before + match.start(1) :])
    for name, body in arrays.items():
        plain = plain.replace(f'"${{{name}[@]}}"', " ".join(body.split())).replace(
            f"${{{name}[@]}}", " ".join(body.split())
        )
    words = [_known(word, known) for word in words_of(plain)]
    program = "torchrun" if "torch.distributed" in match[1] else re.split(r"[\s\d]", match[1])[0]
    skip = 3 if "torch.distributed" in match[1] else 2 if program == "accelerate" else 1
    rest = words[skip:]
    first = next((n for n, word in enumerate(rest) if word.endswith((".py", ".pyc"))
                  or (word in ("-m", "--module") and n + 1 < len(rest))), len(rest))  # fmt: skip
    named = first + (2 if first < len(rest) and rest[first] in ("-m", "--module") else 1)
    return Launch(
        path, line, program, flags_of(rest[named:]), flags_of(rest[:first]),
        CONTINUED.sub(" ", command[: before + match.start(1)]).strip(),
        CONTINUED.sub(" ", command).strip(),
    )  # fmt: skip


def _known(word: str, known: dict[str, str]) -> str:
    """A word with variables replaced that the script assigns a number or a name."""

    def value(match: re.Match[str]) -> str:
        text = known.get(match[1], "")
        return text if re.fullmatch(r"[\w.:/-]+", text) else match[0]

    return re.sub(r"\$\{?(\w+)(?::-[^}]*)?\}?", value, word)


def _line(number: int, line: str) -> Span:
    start = len(line) - len(line.lstrip()) + 1
    return Span(number, start, number, len(line.rstrip()) + 1)
