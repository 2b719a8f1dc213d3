"""DAT: what relations between fields, rows, passes and splits mean."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from doctor._util.records import Ended
from doctor.checks.data import (
    agreement,
    agreement_meanings,
    answers,
    belonging,
    given,
    prompts,
    rereading,
    source,
    tokens,
    two_splits,
    values,
    written,
)
from doctor.checks.data.cited import cited
from doctor.facts.data import Data, Labels, Split
from doctor.facts.data_batches import Agreement
from doctor.facts.data_rows import Relation, RelationKind
from doctor.facts.script_machine import ScriptMachine
from doctor.judge.check import Check, Status
from doctor.judge.sources import SOURCES
from doctor.script.read import read_script

TABLES: dict[Check, Any] = {
    agreement.AGREED: agreement_meanings.MEANINGS,
    answers.COMPLETE: answers.MEANINGS,
    belonging.BELONG: belonging.MEANINGS,
    given.UNSEEN: given.MEANINGS,
    prompts.MEANT: prompts.MEANINGS,
    rereading.STAYS: rereading.MEANINGS,
    tokens.UNUSED: tokens.MEANINGS,
    two_splits.SPLITS_ALIKE: two_splits.MEANINGS,
    values.BOUNDED: values.MEANINGS,
    written.WRITTEN: written.MEANINGS,
}
ELSEWHERE = {"eval unlabelled", 
    "marker nowhere", "answers unmarked", "class in eval alone", "eval random",
    "inputs tell targets",
}  # fmt: skip
"""Judged by functions of their own."""
CASES = [(check, kind) for check, table in TABLES.items() for kind in table]


def facts(*relations: Relation, of_data: bool = False, **fields: Any) -> Data:
    """Two splits, with the relations in train or in what both are."""
    labels = Labels(objective="next token", documents=64, trained=9, tokens=90)
    train = Split(name="train", kind="loader", rows=64, agreement=Agreement(rows=64), labels=labels)
    train = msgspec.structs.replace(train, **fields, relations=() if of_data else relations)
    other = Split(name="eval", kind="loader", rows=64, agreement=Agreement(rows=64), labels=labels)
    whole = relations if of_data else ()
    opened = Ended(how="ok")
    return Data(target="t.py:make", opened=opened, splits=(train, other), relations=whole)


def relation(kind: str, part: int = 64, **fields: Any) -> Relation:
    fields = {"fields": ("x",), "rows": (3,), "numbers": (1.0, 2.0, 3.0, 4.0), **fields}
    return msgspec.convert(
        {"type": "Relation", "kind": kind, "part": part, "whole": 64, **fields}, Relation
    )


def test_every_kind_has_one_meaning() -> None:
    kinds = [kind for _, kind in CASES]
    assert len(set(kinds)) == len(kinds)
    assert set(kinds) | ELSEWHERE == set(get_args(RelationKind))


@pytest.mark.parametrize(("check", "kind"), CASES, ids=lambda each: getattr(each, "code", each))
def test_a_relation_warns_or_is_noted(check: Check, kind: str) -> None:
    meaning = TABLES[check][kind]
    found = [check.judge(data=facts(relation(kind), of_data=of_data)) for of_data in (False, True)]
    loud = Status.NOTE if meaning.noted else Status.FAIL if meaning.broken else Status.WARN
    assert loud in {each.status for each in found}
    text = next(each for each in found if each.status is loud)
    assert "{" not in text.summary
    assert meaning.fix in (text.fix or "")
    assert text.sources == cited(relation(kind).kind)
    assert set(text.sources) <= SOURCES.keys()
    rare = check.judge(data=facts(relation(kind, part=0)))
    assert meaning.least == 0 or meaning.single or rare.status in (Status.PASS, Status.SKIP)


@pytest.mark.parametrize(("part", "status"), [(64, Status.PASS), (0, Status.NOTE)])
def test_what_a_learner_did_not_learn_is_no_pass(part: int, status: Status) -> None:
    each = relation("inputs tell targets", part=part, fields=("train",), numbers=(0.4,))
    assert belonging.BELONG.judge(data=facts(each, of_data=True)).status is status


def test_what_is_explained_is_never_below_0() -> None:
    numbers = (-0.02, 0.7)
    each = relation("targets of other rows", fields=("train", "1 row behind"), numbers=numbers)
    verdict = belonging.BELONG.judge(data=facts(each, of_data=True))
    assert "train explain nothing of their own targets, and 0.7 of" in verdict.summary


def test_nothing_to_learn_from() -> None:
    assert belonging.BELONG.judge(data=facts()).status is Status.SKIP
    unread = msgspec.structs.replace(facts(), splits=())
    assert belonging.BELONG.judge(data=unread).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("part", "numbers", "status"),
    [
        (30, (1, 5, 4), Status.WARN),
        (64, (5, 5, 4), Status.NOTE),  # as in metric learning
        (1, (1, 5, 4), Status.PASS),
        (30, (100, 500, 400), Status.PASS),  # counts
    ],
)
def test_classes_of_eval_alone(part: int, numbers: Any, status: Status) -> None:
    each = relation("class in eval alone", part=part, numbers=numbers)
    assert two_splits.SPLITS_ALIKE.judge(data=facts(each, of_data=True)).status is status


@pytest.mark.parametrize(("numbers", "status"), [((1, 1), Status.WARN), ((0, 1), Status.NOTE)])
def test_random_rows_of_eval(numbers: Any, status: Status) -> None:
    each = relation("eval random", numbers=numbers)
    assert two_splits.SPLITS_ALIKE.judge(data=facts(each, of_data=True)).status is status


@pytest.mark.parametrize(
    ("same", "status"),
    [(800, Status.WARN), (100, Status.PASS)],  # BERT leaves a tenth
)
def test_labels_that_the_input_shows(same: int, status: Status) -> None:
    labels = Labels(objective="other tokens", documents=64, compared=1000, matches={"0": same})
    assert given.UNSEEN.judge(data=facts(labels=labels)).status is status


SAMPLER = """
from torch.utils.data import DataLoader, DistributedSampler
def make():
    sampler = DistributedSampler(rows, shuffle=True)
    return DataLoader(rows, batch_size=8, sampler=sampler)
def main():
    loader = make()
    for epoch in range(9):
        {call}
        for x in loader:
            model(x).backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("call", "status"), [("pass", Status.WARN), ("loader.sampler.set_epoch(epoch)", Status.PASS)]
)
def test_the_source_is_read(call: str, status: Status) -> None:
    script = read_script("train.py", SAMPLER.replace("{call}", call).encode())
    assert script is not None
    found = source.SOURCE.judge(data=facts(), scripts=(script,), script_machine=ScriptMachine())
    assert found.status is status
    absent = source.SOURCE.judge(data=facts(), scripts=None, script_machine=ScriptMachine())
    assert absent.status is Status.SKIP


def test_an_eval_without_labels() -> None:
    """Labels that are kept back, or classes that train does not know, of an open set."""
    found = relation("eval unlabelled", fields=(), rows=())
    verdict = two_splits.SPLITS_ALIKE.judge(data=facts(found, of_data=True))
    assert verdict.status is Status.NOTE
