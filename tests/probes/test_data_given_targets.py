"""Targets that their inputs hold, that are lost or cut, or that a change does not follow, with a
sound neighbour of each."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from data_targets import verdicts  # noqa: E402
from map_datasets import Rows  # noqa: E402

from doctor.judge.check import Status  # noqa: E402

data = torch.utils.data
pytestmark = pytest.mark.slow
LOUD = (Status.WARN, Status.FAIL)
WORDS = [f"word{n}" for n in range(300)]
TEMPLATE = (
    "{% for m in messages %}<s> {{ m['role'] }} : {{ m['content'] }} </s> {% endfor %}"
    "{% if add_generation_prompt %}<s> assistant : {% endif %}"
)


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = ["<pad>", "<s>", "</s>", "<unk>", "user", "assistant", ":", *WORDS]
    plain = Tokenizer(models.WordLevel({name: n for n, name in enumerate(names)}, "<unk>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token="</s>", pad_token="<pad>", unk_token="<unk>",
        additional_special_tokens=["<s>"],
    )  # fmt: skip
    made.chat_template = TEMPLATE
    return made


def loader(rows: Any, **options: Any) -> Any:
    return data.DataLoader(rows, **{"batch_size": 8, **options})


def seeded(number: int = 0) -> Any:
    return torch.Generator().manual_seed(number)


def said(draw: random.Random, words: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(words))


def padded(batch: Any) -> dict[str, Any]:
    pad = torch.nn.utils.rnn.pad_sequence
    ids = pad([each["input_ids"] for each in batch], True, 0)
    labels = pad([each["labels"] for each in batch], True, -100)
    return {"input_ids": ids, "labels": labels, "attention_mask": (ids != 0).long()}


def chats(trained: Callable[[int, str], bool], length: int = 500) -> Any:
    """Three questions and answers each; `trained` by the number and the role of a message."""
    made, draw = tokenizer(), random.Random(1)
    rows = []
    for _ in range(64):
        ids: list[int] = []
        labels: list[int] = []
        for number in range(6):
            role = ("user", "assistant")[number % 2]
            head = made.encode(f"<s> {role} :", add_special_tokens=False)
            body = made.encode(
                "word1 " + said(draw, 6 + number) + " </s>", add_special_tokens=False
            )
            ids += head + body
            labels += [-100] * 3 + (body if trained(number, role) else [-100] * len(body))
        each = {"input_ids": ids[:length], "labels": labels[:length]}
        rows.append({name: torch.tensor(value) for name, value in each.items()})
    return loader(Rows(len(rows), rows.__getitem__), collate_fn=padded), made


def texts(least: int, most: int, limit: int) -> Any:
    made, draw = tokenizer(), random.Random(2)
    rows = []
    for _ in range(96):
        text = f"word1 word2 word3 word4 {said(draw, draw.randint(least, most))} </s>"
        ids = torch.tensor(made.encode(text, add_special_tokens=False)[:limit])
        rows.append({"input_ids": ids, "labels": ids.clone()})
    return loader(Rows(len(rows), rows.__getitem__), collate_fn=padded), made


def questions(told: bool) -> Any:
    """Prompts of a reinforcement learner, padded on the left."""
    made, draw = tokenizer(), random.Random(3)
    made.padding_side = "left"

    def collate(answers: Any) -> Any:
        content = [f"{said(draw, 9)} {each if told else said(draw, 1)}" for each in answers]
        turns = [[{"role": "user", "content": each}] for each in content]
        text = [made.apply_chat_template(t, tokenize=False, add_generation_prompt=True)
                for t in turns]  # fmt: skip
        return {**made(text, padding=True, return_tensors="pt"), "answer": list(answers)}

    return loader(Rows(64, lambda n: WORDS[n]), collate_fn=collate), made


def history(told: bool) -> Any:
    series = torch.randint(1, 500, (96, 12), generator=seeded())
    return loader(Rows(96, lambda n: {
        "user_id": n, "history": series[n, told : 11 + told], "positive": series[n, 11],
        "negative": torch.randint(500, 900, ()),
    }))  # fmt: skip


def revenue(column: str) -> Any:
    x = torch.rand(300, 6, generator=seeded(4)) * 10 + 1
    y = {"product": x[:, 2] * x[:, 4], "share": x[:, 2] / x[:, 4], "sum": x[:, 2] + x[:, 4]}
    noise = torch.randn(300, generator=seeded(5))
    target = y[column] if column != "sum" else x[:, 2] * x[:, 4] * (1 + 0.1 * noise)
    return loader(data.TensorDataset((x - x.mean(0)) / x.std(0), target.log()))


def genres(separator: str, capital: int = 200) -> Any:
    names = ("drama", "action", "comedy")
    shown = ["|".join(names[n % 3 : n % 3 + 1 + n % 2] if n % 5 else ()) for n in range(120)]
    shown = [text if (n + 1) % capital else text.title() for n, text in enumerate(shown)]
    held = [{"title": WORDS[n], "genres": each} for n, each in enumerate(shown)]

    def row(number: int) -> Any:
        found = held[number]["genres"].split(separator)
        target = torch.tensor([float(each in found) for each in ("drama", "action", "comedy")])
        return {"x": torch.randn(4, generator=seeded(number)), "labels": target}

    return loader(Rows(120, row, rows=held))


def described(column: str) -> Any:
    """Most rows have no class, and a text that says none of them."""
    held = [{column: ("france", "italy", "france/italy")[n % 3]} for n in range(120)]
    x = torch.randn(120, 4, generator=seeded())

    def row(number: int) -> Any:
        target = torch.rand(5, generator=seeded(number)) < 0.1
        return {"x": x[number], "labels": target.float()}

    return loader(Rows(120, row, rows=held))


def turned(image_alone: bool) -> Any:
    """Both are mirrored; upside down is the image alone, or both are."""

    def row(number: int) -> Any:
        mask = torch.randint(0, 3, (6, 6), generator=seeded(number)).repeat_interleave(4, 0)
        mask = mask.repeat_interleave(4, 1)
        image = mask[None].float() + 0.1 * torch.randn(1, 24, 24, generator=seeded(number))
        if random.random() < 0.5:
            image, mask = image.flip(-1), mask.flip(-1)
        if random.random() < 0.5:
            image, mask = image.flip(-2), mask if image_alone else mask.flip(-2)
        return {"image": image, "mask": mask}

    random.seed(0)
    return loader(Rows(64, row))


def maps(highest: int) -> Any:
    def row(number: int) -> Any:
        mask = torch.randint(0, highest + 1, (4, 4), generator=seeded(number))
        mask = mask.repeat_interleave(4, 0).repeat_interleave(4, 1)
        return {"image": torch.randn(3, 16, 16, generator=seeded(number)), "mask": mask}

    return loader(Rows(64, row)), loader(Rows(48, lambda n: row(n + 64)))


def opinions(value: Callable[[int], bool]) -> Any:
    ids = torch.randint(3, 300, (64, 9), generator=seeded(6))
    return loader(Rows(64, lambda n: {
        "input_ids": ids[n], "labels": ids[n], "desirable": torch.tensor(value(n)),
    }))  # fmt: skip


class Recognizer(torch.nn.Module):
    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride, self.net = stride, torch.nn.Conv1d(8, 6, 3, stride=stride, padding=1)

    def forward(self, x: Any) -> Any:
        return self.net(x.transpose(1, 2)).transpose(1, 2).log_softmax(-1)


def spoken(stride: int) -> Any:
    """Targets of 8 letters for 32 frames."""
    labels = torch.arange(8) % 5 + 1
    rows = Rows(64, lambda n: {
        "x": torch.randn(32, 8, generator=seeded(n)), "labels": labels.roll(n),
        "input_lengths": 32, "label_lengths": 8,
    })  # fmt: skip

    def loss(model: Any, batch: Any) -> Any:
        out, lengths = model(batch["x"]), batch["input_lengths"] // model.stride
        return torch.nn.functional.ctc_loss(out.transpose(0, 1), batch["labels"], lengths,
                                            batch["label_lengths"])  # fmt: skip

    return Recognizer(stride), loader(rows), loss


def pictures(copied: bool) -> Any:
    """Fine grounds that are brighter in eval, or one square each on a ground of its own."""

    def ground(number: int) -> Any:
        return torch.rand(1, 32, 32, generator=seeded(number))

    def shape(number: int) -> Any:
        image, at = 0.05 * ground(number), number % 3
        image[:, 10 + at : 22 + at, 10:22] += 0.8
        return image

    made = ground if copied else shape
    train = Rows(64, lambda n: (made(n), n % 2))
    return loader(train), loader(Rows(48, lambda n: (0.8 * made(n + 1000 * (not copied)), n % 2)))


CASES: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
    ("DAT013", partial(chats, lambda n, role: n > 0), partial(chats, lambda n, role: n % 2 == 1)),
    ("DAT013", partial(chats, lambda n, role: n > 0), partial(chats, lambda n, role: True)),
    ("DAT013", partial(chats, lambda n, role: n % 2 == 0 and n > 0),
     partial(chats, lambda n, role: n == 5)),
    ("DAT003", partial(texts, 60, 90, 40), partial(texts, 60, 90, 100)),
    ("DAT003", partial(chats, lambda n, role: n == 5, 72), partial(chats, lambda n, role: n == 5)),
    ("DAT024", partial(questions, True), partial(questions, False)),
    ("DAT024", partial(history, True), partial(history, False)),
    ("DAT022", partial(genres, ","), partial(genres, "|")),
    ("DAT022", partial(genres, "|", 4), partial(genres, "|")),
    ("DAT022", partial(turned, True), partial(turned, False)),
    ("DAT009", partial(opinions, lambda n: True), partial(opinions, lambda n: n % 3 > 0)),
    ("DAT022", partial(spoken, 8), partial(spoken, 2)),
    ("DAT025", partial(pictures, True), partial(pictures, False)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "faulty", "sound"), CASES, ids=range(len(CASES)))
def test_a_fault_is_named_and_its_neighbour_is_not(
    code: str, faulty: Any, sound: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdicts(faulty(), monkeypatch)[code].status in LOUD
    quiet = verdicts(sound(), monkeypatch)
    assert quiet[code].status not in LOUD, quiet[code].summary


def test_the_length_of_a_tokenizer_is_not_that_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """77 rows in batches of four, beside a vocabulary of 307 words."""
    rows = Rows(77, lambda n: torch.randn(3, generator=seeded(n)), tokenizer=tokenizer())
    found = verdicts(loader(rows, batch_size=4), monkeypatch)["DAT022"]
    assert found.status not in LOUD, found.summary


HEALTHY_OR_NOTED = [
    ("DAT022", partial(revenue, "product"), Status.NOTE),
    ("DAT022", partial(revenue, "share"), Status.NOTE),
    ("DAT020", partial(maps, 0), Status.NOTE),
    ("DAT020", partial(maps, 2), Status.PASS),
    ("DAT022", partial(described, "country"), Status.PASS),
]


@pytest.mark.parametrize(("code", "made", "status"), HEALTHY_OR_NOTED)
def test_what_may_be_meant_is_no_warning(
    code: str, made: Any, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = verdicts(made(), monkeypatch)[code]
    assert found.status is status, found.summary
