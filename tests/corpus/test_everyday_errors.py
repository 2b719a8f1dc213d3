"""Messages that people meet every day: the first remedy holds what an engineer would say to it, and
explain, triage and read begin with the same cause.

`remedy` was written before the message was tried, as an expression for what resolves it. Of the
first 253 messages 207 were answered so at first sight, of the next 192, less usual ones, 125; then
rows were written or widened with them, so that they say nothing of texts that are new.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from pasted_errors import answer
from paths import TESTS

from doctor._util.errors import UserError
from doctor.cli.options import ConfigFlags
from doctor.cli.read import facts_of_text
from doctor.cli.triage import triage
from doctor.errors import said, said_rows
from doctor.errors.causes import BY_ID
from doctor.errors.index import ENTRIES
from doctor.judge.check import Status

with (TESTS / "corpus" / "everyday_errors.csv").open(encoding="utf-8", newline="") as _file:
    EVERYDAY = [(row["message"], row["remedy"]) for row in csv.DictReader(_file)]
SUMMARIES = ("launcher-summary", "failure-stands-above")
"""Rows of lines that name no cause: triage asks for the log of the rank."""


@pytest.mark.parametrize(("message", "remedy"), EVERYDAY)
def test_explain_gives_the_remedy_for_this_message(message: str, remedy: str) -> None:
    given = answer(message)
    assert given.names
    assert re.search(remedy, " ".join(given.first.split())), given.first


@pytest.mark.parametrize("message", [message for message, _ in EVERYDAY[::3]])
def test_explain_triage_and_read_begin_with_the_same_cause(message: str, tmp_path: Path) -> None:
    first = answer(message).names[0]
    log = tmp_path / "train.log"
    log.write_text(f"{message}\n", encoding="utf-8")
    finding = triage([str(log)], {}, ConfigFlags(no_config=True)).findings[0]
    if BY_ID[first].role in ("harmless", "warning"):
        assert finding.status is not Status.FAIL
    elif first not in SUMMARIES:
        assert first == (*finding.verdict.causes, finding.check.slug)[0]
    try:
        facts_of_text(message, "paste")
    except UserError as error:
        assert f"({first})" in str(error)


def test_an_exception_whose_message_begins_on_the_next_line_has_its_cause(tmp_path: Path) -> None:
    text = "RuntimeError:\n\n        Some tensors share memory, this will lead to duplicate memory"
    log = tmp_path / "train.log"
    for before in (
        "",
        'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\n',
    ):
        log.write_text(f"{before}{text}\n", encoding="utf-8")
        finding = triage([str(log)], {}, ConfigFlags(no_config=True)).findings[0]
        assert finding.status is Status.FAIL
        assert finding.verdict.causes[0] == "shared-tensors-saved"
    log.write_text("ValueError:\n{'loss': 2.1, 'epoch': 1.0}\n" * 4, encoding="utf-8")
    finding = triage([str(log)], {}, ConfigFlags(no_config=True)).findings[0]
    assert "loss" not in finding.verdict.summary


def test_sentences_belong_to_rows_and_their_words_are_known() -> None:
    assert {id for ids, _, _ in said_rows.SAID for id in ids.split()} <= set(ENTRIES)
    for _, expression, sentence in said_rows.SAID:
        named = set(re.compile(expression).groupindex) | {"package", "renamed", "wheel", "cuda"}
        named |= {"classes", "operand", "near"}
        assert set(re.findall(r"(?<!\{)\{(\w+)\}", sentence)) <= named


def test_a_sentence_with_unknown_words_is_left_out() -> None:
    known = said.sentence("import-failed", "ModuleNotFoundError: No module named 'cv2'")
    assert "opencv-python" in known
    assert said.sentence("import-failed", "ModuleNotFoundError: No module named 'utils'") == ""
