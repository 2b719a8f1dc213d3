"""What belongs together and does not: each relation with the sound data that resemble it."""

from __future__ import annotations

import random
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from doctor.probes.training_side.data import (  # noqa: E402
    documents,
    encoded_views,
    interactions,
    joined,
    left_borders,
    pages,
    places,
    row_ends,
    split_sides,
    stated,
    targets,
    templates,
    token_places,
    vocabulary,
    workers,
)
from doctor.probes.training_side.data.facets import captions, tables  # noqa: E402

pytestmark = pytest.mark.slow
NONE = -100


def kinds(records: list[dict[str, Any]]) -> list[str]:
    return [each["kind"] for each in records if each["part"]]


def document(ids: list[int], labels: list[int] | None = None, row: int = 0) -> Any:
    made = torch.tensor(ids)
    return documents.Document(row, made, torch.tensor(labels or ids), made[:0])


class Config:
    eos_token_id = 2
    _name_or_path = ""


def vocabulary_of(path: str, trainer: Any = None) -> Any:
    config = Config()
    config._name_or_path = path
    model = SimpleNamespace(config=config, generation_config=SimpleNamespace(eos_token_id=2))
    tokenizer = SimpleNamespace(eos_token_id=1, all_special_ids=[0, 1, 2])
    return vocabulary.of_objects(tokenizer, model, trainer, "")


def test_a_trainer_that_aligns_stops_by_a_function(monkeypatch: Any) -> None:
    module = ModuleType("some_trainer")
    trainer = type("Trainer", (), {"__module__": "some_trainer", "processing_class": 1})()
    monkeypatch.setitem(sys.modules, "some_trainer", module)
    assert vocabulary_of("base", trainer).stops == (2,)
    module.align_special_tokens = lambda model, tokenizer: None  # type: ignore[attr-defined]
    assert vocabulary_of("base", trainer).stops == (2, 1)


def test_the_stop_of_a_class_is_stated_by_a_checkpoint_alone() -> None:
    assert vocabulary_of("base").stops == (2,)
    assert vocabulary_of("").stops == (1,)


@pytest.mark.parametrize(
    ("trained", "counts"),
    [
        ((0, 1, 1, 0, 0, 0), {"asking": 1, "prompted": 0}),
        ((0, 1, 1, 0, 1, 1), {"asking": 0, "prompted": 1}),
        ((0, 0, 0, 0, 1, 1), {"asking": 0, "prompted": 1}),
        ((0, 0, 1, 0, 0, 0), {"asking": 0, "prompted": 0}),
    ],
)
def test_questions_that_are_trained(trained: tuple[int, ...], counts: dict[str, int]) -> None:
    """3, 4 stand before a question, 7, 8 before an answer."""
    ids = [1, 3, 4, 20, 21, 7, 8, 30, 31]
    flags = [0, 0, *trained[:3], *trained[3:4] * 2, *trained[4:]]
    labels = [each if flag else NONE for each, flag in zip(ids, flags, strict=True)]
    if trained[1]:
        labels[3] = 20
    found = templates.borders([document(ids, labels)] * 4, [7, 8], [3, 4], 0)
    assert {name: found[name] // 4 for name in counts} == counts


@pytest.mark.parametrize("late", [0, 1])
def test_borders_counted_from_the_first_column(late: int) -> None:
    """9 ends the prompt; a border within the padding trains the whole row."""
    found = left_borders.LeftBorders()
    for number in range(24):
        padding, prompt = number % 8, 5
        ids = [0] * padding + [4, 5, 6, 7, 9] + [10 + number] * (20 - padding)
        border = prompt + late * padding
        labels = [NONE if n < max(border, padding) else each for n, each in enumerate(ids)]
        mask = [0] * padding + [1] * (len(ids) - padding)
        each = [torch.tensor([one]) for one in (ids, labels, mask)]
        found.add(documents.Tokens(each[0], each[1], each[2], {}), number)
    assert kinds(found.records()) == ([] if late else ["border within padding"])


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        ([4, 5, 6, 7], [], 40),
        ([4, 5, 6, 7], [2], 0),
        ([4, 5, 6, 7], [8, 4, 9, 8], 0),
        ([4, 5, 6, 7], [9, 8], 0),
        ([], [], 1),
    ],
)
def test_texts_that_begin_alike_and_have_no_end(
    begin: list[int], end: list[int], found: int
) -> None:
    """An end that is the same in all texts is one, if it is no token of its own."""
    draw = random.Random(0)
    each = [
        document([*begin, *(draw.randrange(10, 900) for _ in range(8 + number % 7)), *end])
        for number in range(40)
    ]
    known = vocabulary.Vocabulary(bos=1, eos=2, stops=(2,), source="the tokenizer's eos_token")
    record = row_ends.stops(each, known, [])
    assert record is not None
    assert record["open"] <= found
    assert record["open"] == found or found == 1


@pytest.mark.parametrize(("shares", "loud"), [((0.85,) * 64, True), ((0.4,) * 64, False), (
    (0.7,) * 64, False), (tuple(n / 64 for n in range(64)), False)])  # fmt: skip
def test_a_mask_over_most_tokens(shares: tuple[float, ...], loud: bool) -> None:
    """A model that is trained on all shares, as by diffusion, has few such rows."""
    tokenizer = SimpleNamespace(mask_token_id=4, all_special_ids=[2, 3, 4])
    looks = token_places.TokenPlaces(None)
    rows = []
    for number, part in enumerate(shares):
        hidden = [n < 20 * part or n == 0 for n in range(20)]
        ids = [4 if each else 50 + n for n, each in enumerate(hidden)]
        labels = [50 + n if each else NONE for n, each in enumerate(hidden)]
        rows.append(document(ids, labels, number))
    found = looks.records(rows, vocabulary.Vocabulary(tokenizer))
    part = sum(each["part"] for each in found if each["kind"] == "most is masked")
    assert (part >= 0.9 * len(shares)) is loud


def tagged(labels: list[int]) -> list[str]:
    """Rows of [CLS] 2, five words and [SEP] 3."""
    looks = places.Places(vocabulary.Vocabulary(), None)
    for number in range(40):
        ids = torch.tensor([[2, 10 + number, 20, 30 + number, 40, 50, 3]])
        moved = torch.tensor([labels])
        looks.add({}, documents.Tokens(ids, moved, torch.ones_like(ids), {}), number)
    return kinds(looks.records())


def test_tags_one_token_off() -> None:
    assert tagged([0, 0, 1, 2, 0, NONE, NONE]) == ["tag on special"]
    assert tagged([NONE, NONE, 0, 1, 2, 0, 0]) == ["tag on special"]
    assert tagged([NONE, 0, 0, 1, 2, 0, NONE]) == []
    assert tagged([0, 0, 0, 1, 2, 0, 0]) == []
    assert tagged([0, NONE, NONE, 1, 2, NONE, NONE]) == []


@pytest.mark.parametrize("stop", [3, 12])
@pytest.mark.parametrize("known", [True, False])
def test_labels_that_are_the_next_tokens_are_no_tags(stop: int, known: bool) -> None:
    """Targets of a decoder, with and without a stop at their end, and with a prompt left out."""
    looks = places.Places(vocabulary.Vocabulary(), None)
    for number in range(40):
        words = [2 + (number * n) % 19 for n in range(3, 9)]
        ids, labels = torch.tensor([[0, *words]]), torch.tensor([[*words, stop]])
        labels[:, 1:3] = labels[:, 1:3] if known else NONE
        looks.add({}, documents.Tokens(ids, labels, torch.ones_like(ids), {}), number)
    assert kinds(looks.records()) == []


@pytest.mark.parametrize(("asked", "found"), [("query", True), ("source", False)])
def test_a_query_with_two_positives_in_a_batch(asked: str, found: bool) -> None:
    """A sentence may have several translations, where nothing else of the batch is a negative."""
    looks = interactions.InBatch()
    name = "positive" if found else "target"
    query = torch.tensor([[5, 6], [5, 6], [7, 8], [9, 4]])
    batch = {asked + "_input_ids": query, name + "_input_ids": torch.arange(8).reshape(4, 2)}
    looks.add(batch, 0)
    assert bool(kinds(looks.records())) is found
    source = "same = query[:, None] == query[None]"
    masked = interactions.InBatch(stated.of_code(source).compares_pairs)
    masked.add(batch, 0)
    assert not kinds(masked.records())
    assert not stated.of_code("hits = scores.argmax(1) == labels").compares_pairs


def translations(turned: bool, alphabet: int = 1000) -> list[dict[str, Any]]:
    draw = torch.Generator().manual_seed(int(turned))
    one = torch.randint(10, 60, (48, 12), generator=draw)
    two = torch.randint(10, 60, (48, 12), generator=draw) + alphabet
    one, two = (two, one) if turned else (one, two)
    return [{"input_ids": one, "labels": two, "decoder_input_ids": two}]


def test_eval_that_translates_in_the_other_direction() -> None:
    train = translations(False)
    assert kinds(split_sides.of_batches(train, translations(True))) == ["sides exchanged"]
    assert split_sides.of_batches(train, translations(False)) == []
    one_language = translations(True, alphabet=0)
    assert split_sides.of_batches(translations(False, alphabet=0), one_language) == []
    both = [*translations(False), *translations(True)]
    assert split_sides.of_batches(both, translations(True)) == []


@pytest.mark.parametrize(
    ("order", "loud"),
    [("own", False), ("text", True), ("random", False)],
)
def test_captions_of_other_images(order: str, loud: bool) -> None:
    draw = torch.Generator().manual_seed(1)
    count = 160
    color = torch.randint(0, 3, (count,), generator=draw)
    images = 0.1 * torch.randn(count, 3, 8, 8, generator=draw)
    images[torch.arange(count), color] += 1.0
    words = torch.stack([color + 10, torch.full((count,), 5)], 1)
    other = torch.randint(30, 90, (count, 3), generator=draw)
    by_text = torch.tensor(sorted(range(count), key=str))
    shuffled = torch.randperm(count, generator=draw)
    words = {"own": words, "text": words[by_text], "random": words[shuffled]}[order]
    inputs = {"image": images, "input_ids": torch.cat([words, other], 1)}
    table = tables.Table(inputs, None, torch.arange(count), count, None)
    found = captions.of_split(captions.side_of("train", table))
    assert ("targets of other rows" in kinds(found)) is loud
    assert captions.side_of("train", table._replace(target=color)) is None


class Siamese(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, both: bool, dropout: float) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 1), torch.nn.Dropout(dropout))
        self.both = both

    def forward(self, one: Any, two: Any) -> Any:
        return ((self.net(one) - (self.net(two) if self.both else two)) ** 2).mean()


@pytest.mark.parametrize(
    ("both", "dropout", "equal", "loud"),
    [(True, 0.0, True, True), (True, 0.0, False, False), (False, 0.0, True, False),
     (True, 0.1, True, False)],
)  # fmt: skip
def test_two_equal_views(both: bool, dropout: float, equal: bool, loud: bool) -> None:
    """An autoencoder's target is its input; dropout makes two views of one."""
    one = torch.randn(8, 3, 4, 4)
    two = one.clone() if equal else torch.randn(8, 3, 4, 4)
    model = Siamese(both, dropout)
    found = encoded_views.of_batches(model, lambda m, b: m(*b), [(one, two)])
    assert kinds(found) == (["equal inputs"] if loud else [])
    noisy = lambda m, b: m(*(each + torch.randn_like(each) for each in b))  # noqa: E731
    assert encoded_views.of_batches(model, noisy, [(one, two)]) == []


class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg,misc]
    def __init__(self, draws: bool) -> None:
        self.rng = random.Random(0)
        self.draws = draws

    def __iter__(self) -> Any:
        rows = list(range(64))
        self.rng.shuffle(rows)
        for number in rows:
            yield torch.full((4,), self.rng.random() if self.draws else float(number))


@pytest.mark.parametrize("draws", [True, False])
def test_a_generator_that_makes_rows_is_told_from_one_that_shuffles_them(draws: bool) -> None:
    loader = torch.utils.data.DataLoader(Stream(draws), batch_size=8)
    assert workers._draws(loader, 8) is draws
    assert targets.source("train", loader).kind == "loader"


@pytest.mark.parametrize("moved", [0, 1])
def test_two_common_words_in_a_row_tell_a_pair(moved: int) -> None:
    draw = random.Random(0)
    words = [f"w{n}" for n in range(30)]
    pairs = [" ".join(draw.sample(words, 2)) for _ in range(256)]
    looks = joined.Joined()
    for number in range(256):
        other = number - moved if number >= 96 else number
        looks.add({"question": f"what about {pairs[number]} there", "answer": pairs[other]}, number)
    assert ("rows displaced" in kinds(looks.records())) is bool(moved)


def test_a_prompt_that_is_repeated_tells_once() -> None:
    """Ten answers to each prompt, and prompts that share words with the next one."""
    looks = joined.Joined()
    for number in range(256):
        at = number // 10
        looks.add({"prompt": f"topic{at} asks", "rejected": f"it is topic{at + 1}"}, number)
    assert "rows displaced" not in kinds(looks.records())


def test_exchanged_roles_are_no_missing_answer() -> None:
    chat = [{"role": "assistant", "content": "What?"}, {"role": "user", "content": "That."}]
    assert pages.ends_with_question({"messages": chat}) is False
    assert pages.are_swapped(chat)
    assert pages.ends_with_question({"messages": chat[1:]}) is True
    assert not pages.are_swapped(chat[::-1])
    said = ("Hello.", "What is a prime?", "A number with two divisors.", "Thanks!")
    framed = [{"role": ("assistant", "user")[n % 2], "content": c} for n, c in enumerate(said)]
    assert not pages.are_swapped(framed)
    assert pages.ends_with_question({"messages": framed}) is False
    said = ("What is a prime?", "A number with two divisors.", "And 2?", "It is one, the first.")
    asked = [{"role": ("assistant", "user")[n % 2], "content": c} for n, c in enumerate(said)]
    assert pages.are_swapped(asked)
