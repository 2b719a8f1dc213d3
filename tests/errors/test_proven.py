"""What `run --model` proves is among what `doctor explain` proposes for the text.

The messages are those of the own corpora; `benchmarks/own_model_corpus.py --record` writes them.
"""

from __future__ import annotations

import own_corpus
from error_index import messages

from doctor.errors.causes import CAUSES
from doctor.errors.match import with_message

UNSEEN = ["state_of_another_width"]
"""Faults whose proven cause is not proposed: the fifth row of a message that four others have, too,
and that few programs get from an optimizer's state."""
ROWS = [row for row in messages() if row["proven"]]
IDS = {cause.id for cause in CAUSES}


def pasted(row: dict[str, str]) -> str:
    """The last line of a traceback."""
    return f"{row['error']}: {row['message']}" if row["error"] else row["message"]


def test_every_proven_cause_is_proposed_for_its_message() -> None:
    unseen = [
        row["fault"]
        for row in ROWS
        if not set(row["proven"].split()) <= {each.id for each in with_message(pasted(row))}
    ]
    assert len(ROWS) > 150
    assert unseen == UNSEEN


def test_every_cause_is_a_row_and_every_message_is_of_a_label() -> None:
    assert {row["cause"] for row in messages()} | set(
        " ".join(row["proven"] for row in messages()).split()
    ) <= IDS | {""}
    labelled = {(each.set_number, each.name) for each in own_corpus.factories() if each.label}
    assert {(row["set"], row["fault"]) for row in messages()} <= labelled
