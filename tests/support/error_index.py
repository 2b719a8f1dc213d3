"""The index of the table of errors, which `.ci/update` writes."""

from __future__ import annotations

import csv
import json
from collections import Counter

from paths import TESTS

from doctor.errors.cause import Cause
from doctor.errors.causes import CAUSES, TABLES
from doctor.errors.tables import precision
from doctor.log.patterns import literals_of

MESSAGES = TESTS / "corpus" / "error_messages.csv"
"""Messages that the corpora raise, each with the cause that `run --model` names."""
LOGS = TESTS / "corpus" / "logs.csv"
FAMILIES = {cause.id for cause in precision.ROWS}
"""Classes of messages that other rows distinguish: these go first."""


def messages() -> list[dict[str, str]]:
    """Columns set, error, message and cause."""
    with MESSAGES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def classes_of_logs() -> list[str]:
    """The classes of public logs, tests/corpus/logs.csv."""
    with LOGS.open(encoding="utf-8", newline="") as file:
        return [row["expected_class"] for row in csv.DictReader(file)]


def literals(cause: Cause) -> tuple[tuple[str, ...], ...]:
    """For each expression texts, in small letters, of which every match contains one."""
    every = (dict.fromkeys(map(str.casefold, literals_of(each))) for each in cause.messages)
    return tuple(map(tuple, every))


def index() -> str:
    """The text of `doctor.errors.index.FILE`, a row to a line."""
    counts = Counter(row["cause"] for row in messages())
    counts += Counter(each for each in classes_of_logs() if each not in FAMILIES)
    tables = {row.id: table.__name__.rpartition(".")[2] for table in TABLES for row in table.ROWS}
    entries = {row.id: (tables[row.id], counts[row.id], literals(row)) for row in CAUSES}
    lines = (
        f"{json.dumps(id)}: {json.dumps(entry, ensure_ascii=False)}"
        for id, entry in entries.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"
