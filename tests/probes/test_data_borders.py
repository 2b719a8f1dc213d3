"""Where labels begin and end, against what stands before answers, and against words of a text."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from doctor.probes.training_side.data import (  # noqa: E402
    documents,
    late_borders,
    padding,
    piece_tags,
    templates,
    token_places,
    vocabulary,
    weighing,
)
from doctor.probes.training_side.data.facets import alone, tables  # noqa: E402
from doctor.probes.training_side.subject import losses  # noqa: E402

pytestmark = pytest.mark.slow
NONE = -100
QUESTION, TURN, USER, BOT, LINE, LINES = 1, 2, 3, 4, 5, 6
KNOWN = vocabulary.Vocabulary(
    SimpleNamespace(all_special_ids=[0, TURN, USER, BOT], decode=lambda ids: f"<{ids[0]}>")
)


def kinds(records: list[dict[str, Any]]) -> list[str]:
    return [each["kind"] for each in records if each["part"]]


def document(prompt: list[int], answer: list[int], untrained: int = 0) -> Any:
    labels = [NONE] * (len(prompt) + untrained) + answer[untrained:]
    made = torch.tensor(prompt + answer)
    return documents.Document(0, made, torch.tensor(labels), made[:0])


def texts(least: int, most: int) -> list[list[int]]:
    draw = random.Random(3)
    return [[draw.randrange(20, 900) for _ in range(draw.randint(least, most))] for _ in range(64)]


@pytest.mark.parametrize(
    ("header", "untrained", "found"),
    [
        ([7, 8], 1, True),
        ([7, 8], 2, True),
        ([7, 8], 0, False),
        ([], 1, False),  # nothing marks where answers begin
        ([7, 8], 6, False),  # a part of the answer is given
    ],
)
def test_first_tokens_of_answers(header: list[int], untrained: int, found: bool) -> None:
    asked, answers = texts(5, 20), texts(8, 12)
    rows = [document(q + header, a, untrained) for q, a in zip(asked, answers, strict=True)]
    assert bool(late_borders.records(rows, KNOWN)) is found


def test_what_resembles_an_answer_before_what_is_trained() -> None:
    """A word in a fixed prompt, one of a few languages, a special token, a name and a colon."""
    asked, answers, draw = texts(5, 20), texts(8, 12), random.Random(1)
    words = [document([9, 7, 8, a.pop(0)], a) for a in texts(4, 9)]
    few = [document([*q, 7, 8, draw.randrange(900, 904)], a) for q, a in zip(asked, answers)]  # noqa: B905
    special = [document([*q, 7, 8, draw.choice((TURN, USER))], a) for q, a in zip(asked, answers)]  # noqa: B905
    named = [document([*q, 7, 8, draw.randrange(50, 900), 9], a) for q, a in zip(asked, answers)]  # noqa: B905
    for rows in (words, few, special, named):
        assert late_borders.records(rows, KNOWN) == []


@pytest.mark.parametrize(
    ("trained", "first"),
    [((1, 0, 0), 4), ((1, 1, 1), 0), ((0, 0, 1), 0), ((1, 0, 1), 0), ((0, 1, 0), 0)],
)
def test_the_first_of_several_answers(trained: tuple[int, ...], first: int) -> None:
    """All answers, the last one alone, or those that a weight chooses are trained on purpose."""
    ids, labels = [0], [NONE]
    for flag in trained:
        ids += [TURN, USER, LINE, 30, TURN, BOT, LINE, 40, 41]
        labels += [NONE] * 7 + ([40, 41] if flag else [NONE] * 2)
    made = torch.tensor(ids)
    rows = [documents.Document(0, made, torch.tensor(labels), made[:0])] * 4
    found = templates.borders(rows, [TURN, BOT, LINE], [TURN, USER, LINE], 0)
    assert found["first"] == first


@pytest.mark.parametrize(
    ("written", "unlike"),
    [
        ([TURN, BOT, LINES], 4),
        ([TURN, BOT], 4),
        ([TURN, BOT, LINE], 0),
        ([TURN, BOT, LINE, 60], 0),  # the first token of the answer is not trained
        ([7, 8], 0),  # a form without the template's tokens
        ([TURN, USER, LINE], 0),
        ([TURN, BOT, LINE, 60, 61, 62, 63, 64, 65], 0),  # a part of the answer is given
    ],
)
def test_a_prompt_that_is_written_otherwise(written: list[int], unlike: int) -> None:
    rows = [document([0, TURN, USER, LINE, 30, *written], [40, 41, TURN])] * 4
    assert templates.otherwise(rows, [TURN, BOT, LINE], KNOWN)["unlike"] == unlike


@pytest.mark.parametrize(
    ("share", "kept", "found"), [(0.85, 0.1, True), (0.75, 0.1, False), (0.15, 0.1, False)]
)
def test_labels_that_most_of_a_text_has(share: float, kept: float, found: bool) -> None:
    """Of the tokens that are predicted a part is no mask."""
    tokenizer = SimpleNamespace(mask_token_id=4, all_special_ids=[2, 3, 4])
    rows = []
    for number in range(64):
        torch.manual_seed(number)
        ids = torch.randint(10, 99, (60,))
        chosen = torch.rand(60) < share
        labels = torch.where(chosen, ids, torch.tensor(NONE))
        ids = torch.where(chosen & (torch.rand(60) > 2 * kept), torch.tensor(4), ids)
        rows.append(documents.Document(number, ids, labels, ids[:0]))
    looks = token_places.TokenPlaces(0)
    records = looks.records(rows, vocabulary.Vocabulary(tokenizer))
    part = sum(each["part"] for each in records if each["kind"] == "most is masked")
    assert (part >= 0.9 * len(rows)) is found


@pytest.mark.parametrize(
    ("tags", "early"),
    [
        ([NONE, 1, 0, 0, NONE, NONE, NONE], True),
        ([NONE, 1, 0, 0, 0, 0, NONE], False),
        ([NONE, 1, NONE, 0, 0, NONE, NONE], False),  # pieces of a word have none
        ([NONE, NONE, 1, 0, 0, NONE, NONE], False),  # a window with text around it
        ([0, 1, 0, 0, NONE, NONE, NONE], False),  # moved against their tokens
        ([NONE] * 7, False),
    ],
)
def test_tags_that_end_before_their_text(tags: list[int], early: bool) -> None:
    assert ends_early(tags) is early
    assert not ends_early(tags, 3)  # a second text is context without tags


def ends_early(tags: list[int], fifth: int = 40) -> bool:
    tokenizer = SimpleNamespace(
        all_special_ids=[0, 2, 3], convert_ids_to_tokens=lambda ids: [f"w{each}" for each in ids]
    )
    looks = piece_tags.PieceTags(vocabulary.Vocabulary(tokenizer))
    for number in range(8):
        ids = torch.tensor([[2, 10 + number, 20, 30, fifth, 50, 3]])
        looks.add(documents.Tokens(ids, torch.tensor([tags]), None, {}), number)
    return "tags end early" in kinds(looks.records())


@pytest.mark.parametrize("special", [NONE, 0])
def test_padding_beside_labels_that_are_ignored(special: int) -> None:
    """A tag of its own for padding may be the one that the loss ignores."""
    look = padding.Padding(0)
    look.loss_known = False
    ids = torch.tensor([[2, 7, 8, 3, 0, 0], [2, 7, 3, 0, 0, 0]])
    labels = torch.tensor([[special, 1, 0, special, 0, 0], [special, 1, special, 0, 0, 0]])
    look.add(documents.Tokens(ids, labels, (ids > 0).long(), {}), 0)
    assert look.record()["loss_known"] is (special == NONE)


@pytest.mark.parametrize(("cut", "found"), [(0, True), (3, True), (20, False)])
def test_a_class_at_the_end_of_a_text(cut: int, found: bool) -> None:
    """Some texts are cut, and lack it; a word that is frequent in a class does not name it."""
    torch.manual_seed(0)
    target = torch.arange(96) % 3
    ids = torch.randint(100, 900, (96, 12))
    ids[:, -2], ids[:, -1] = 10 + target, 3
    ids[:cut, -2] = torch.randint(100, 900, (cut,))
    table = tables.Table({"ids": ids}, target, torch.arange(96), 96, torch.ones_like(ids))
    assert bool(alone.of_table("train", table)) is found


def test_classes_of_a_table_that_are_numbers_as_text() -> None:
    rows = [{"text": "a", "label": str(number % 3)} for number in range(9)]
    assert weighing.read_classes(rows, 9) == [number % 3 for number in range(9)]
    named = [{"text": "a", "label": "cat"}] * 9
    assert weighing.read_classes(named, 9) is None


def test_a_loss_of_the_output_alone() -> None:
    model = torch.nn.Linear(3, 1)
    batch = torch.ones(4, 3)
    loss = losses.bound(lambda out: out.pow(2).mean())
    value = loss(model, batch).detach()
    assert value == model(batch).detach().pow(2).mean()


BARE = torch.ones(4, 3)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (BARE, 1.0),
        ([BARE], 1.0),
        ({"input": BARE}, 1.0),
        # a target that the batch has is passed
        ([BARE, torch.full((4, 3), 3.0)], 4.0),
        ({"input": BARE, "target": torch.full((4, 3), 3.0)}, 4.0),
    ],
)
def test_an_optional_target_is_left_out_where_there_is_none(batch: Any, expected: float) -> None:
    def penalty(output: torch.Tensor, target: torch.Tensor | None = None) -> torch.Tensor:
        return ((output - (0.0 if target is None else target)) ** 2).mean()

    class Penalty(torch.nn.Module):
        def forward(self, output: Any, target: Any = None) -> torch.Tensor:
            return penalty(output, target)

    for loss in (penalty, Penalty()):
        assert float(losses.bound(loss)(torch.nn.Identity(), batch)) == expected


def test_a_target_without_a_default_is_asked_for() -> None:
    loss = losses.bound(lambda output, target: (output - target).pow(2).mean())
    with pytest.raises(ValueError, match="a criterion needs a batch"):
        loss(torch.nn.Identity(), BARE)
