"""The same fault of the data in batches of other forms, and sound neighbours of each."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from doctor._util.records import Ended  # noqa: E402
from doctor.catalog import of_families  # noqa: E402
from doctor.facts.data import Data, Split  # noqa: E402
from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import (  # noqa: E402
    chats,
    documents,
    pairs,
    row_texts,
    seeds,
    split_look,
    targets,
    templates,
    turns,
    views,
    vocabulary,
)

pytestmark = pytest.mark.slow
CHECKS = {check.code: check for check in of_families("DAT")}
PAD, EOS = 0, 1


def judged(code: str, batches: Any, known: Any = None, module: Any = None, loss: Any = None) -> Any:
    known = known or vocabulary.Vocabulary(pad=PAD, eos=EOS, stops=(EOS,), source="here")
    kind = "dataset" if isinstance(batches[0], dict) and "question" in batches[0] else "loader"
    source = targets.Source("train", kind, batches, len(batches))
    look = split_look.SplitLook(source, known, module, "", loss)
    for batch in look.reading.batches_of(512, 60.0):
        look.add(batch)
    split = msgspec.convert(look.record(), Split, strict=False)
    facts = Data(target="t.py:make", opened=Ended(how="ok"), splits=(split,))
    return CHECKS[code].judge(data=facts)


def texts(rows: int = 64, width: int = 24) -> tuple[Any, Any]:
    """Token ids of several lengths, padded, and their mask."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 90, (rows, width), generator=generator)
    lengths = torch.randint(6, width - 2, (rows,), generator=generator)
    mask = (torch.arange(width) < lengths[:, None]).long()
    return ids * mask, mask


@dataclasses.dataclass
class Batch:
    tokens: Any
    attn_mask: Any
    target: Any


class Items(dict):  # type: ignore[type-arg]
    """As a library's own mapping."""


FORMS = {
    "mapping": lambda i, m, y: Items(input_ids=i, attention_mask=m, labels=y),
    "tuple": lambda i, m, y: (i, m, y),
    "list": lambda i, m, y: [i, m, y],
    "inputs and class": lambda i, m, y: ({"input_ids": i, "attention_mask": m}, y),
    "nested": lambda i, m, y: {"inputs": {"src": i, "src_mask": m}, "meta": {"target": y}},
    "dataclass": lambda i, m, y: Batch(i, m, y),
    "padding mask": lambda i, m, y: {"src": i, "src_key_padding_mask": m == 0, "label": y},
    "numpy": lambda i, m, y: {"input_ids": i.numpy(), "input_mask": m.numpy(), "y": y.numpy()},
    "plain lists": lambda i, m, y: {
        "input_ids": i.tolist(), "attention_mask": m.tolist(), "label": y.tolist(),
    },
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_mask_of_ones_over_padding(form: str) -> None:
    ids, mask = texts()
    classes = torch.arange(len(ids)) % 3
    for given, status in ((torch.ones_like(mask), Status.WARN), (mask, Status.PASS)):
        parts = zip(ids.split(8), given.split(8), classes.split(8), strict=True)
        found = judged("DAT005", [FORMS[form](*part) for part in parts])
        assert found.status is status, found.summary


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("pad", [0, 95])
def test_padding_without_a_tokenizer(pad: int, left: bool) -> None:
    ids, mask = texts()
    ids = torch.where(mask == 0, pad, ids)
    ids, mask = (ids.flip(1), mask.flip(1)) if left else (ids, mask)
    within = ids.clone()
    within[:, 11] = torch.where(torch.arange(len(ids)) % 2 == 0, pad, within[:, 11])
    whole = torch.where(mask == 0, 7, ids)[:, 5:17]  # pieces of one length, without padding
    ones, known = torch.ones_like(mask), vocabulary.Vocabulary()
    classes = torch.arange(len(ids)) % 3
    for given, seen, status in (
        (ids, ones, Status.WARN),
        (ids, mask, Status.PASS),
        (within, ones, Status.SKIP),  # the id is a word of the text
        (torch.where(whole == 7, 8, whole) + (whole == 7) * torch.arange(12), ones[:, 5:17],
         Status.SKIP),
    ):  # fmt: skip
        parts = zip(given.split(8), seen.split(8), classes.split(8), strict=True)
        found = judged("DAT005", [FORMS["mapping"](*part) for part in parts], known)
        assert found.status is status, found.summary


def test_two_tokens_for_the_beginning_without_a_tokenizer() -> None:
    ids, mask = texts()
    known = vocabulary.Vocabulary()
    for begin, status in (((95, 95), Status.WARN), ((95, 96), Status.UNKNOWN),
                          ((95,), Status.UNKNOWN)):  # fmt: skip
        head = torch.tensor(begin).repeat(len(ids), 1)
        made, seen = torch.cat([head, ids], 1), torch.cat([torch.ones_like(head), mask], 1)
        batches = [FORMS["mapping"](*part, part[0]) for part in
                   zip(made.split(8), seen.split(8), strict=True)]  # fmt: skip
        found = judged("DAT004", batches, known)
        assert found.status is status, found.summary


@pytest.mark.parametrize("form", FORMS)
def test_padding_is_trained(form: str) -> None:
    ids, mask = texts()
    masked = torch.where(mask == 0, -100, ids)
    for labels, status in ((ids, Status.WARN), (masked, Status.PASS)):
        parts = zip(ids.split(8), mask.split(8), labels.split(8), strict=True)
        found = judged("DAT005", [FORMS[form](*part) for part in parts])
        assert found.status is status, found.summary


def test_rows_of_several_lengths_have_the_mask_that_their_lengths_state() -> None:
    made = documents.tokens_of({"input_ids": [[5, 6, 7], [8, 9]], "labels": [[5, 6, 7], [-100, 9]]})
    assert made is not None
    assert made.mask is not None
    assert made.labels is not None
    assert made.mask.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert made.labels.tolist() == [[5, 6, 7], [-100, 9, -100]]


def test_other_batches_stay_as_they_are() -> None:
    x, y = torch.randn(4, 3), torch.arange(4)
    for batch in (
        x,
        (x, y),
        {"x": x, "y": y},
        (torch.randint(5, 9, (2, 6)),) * 3,
        ["a", "b"],
        None,
    ):
        assert views.of(batch) is batch


class Encoder(torch.nn.Module):
    config = type("Config", (), {"model_type": "roberta", "vocab_size": 90, "pad_token_id": PAD})()

    def get_input_embeddings(self) -> Any:
        return torch.nn.Embedding(self.config.vocab_size, 4)


def test_an_encoder_without_a_mask_sees_padding_and_ids_have_an_embedding() -> None:
    ids, _ = texts()
    batches = [{"input_ids": each, "labels": torch.arange(8) % 2} for each in ids.split(8)]
    assert judged("DAT005", batches, module=Encoder()).status is Status.WARN
    assert judged("DAT005", batches).status is Status.SKIP
    assert judged("DAT022", batches, module=Encoder()).status is Status.PASS
    batches[3]["input_ids"][2, 1] = 90
    assert judged("DAT022", batches, module=Encoder()).status is Status.FAIL
    batches[3]["input_ids"][2, 1] = -200  # a placeholder within the row
    assert judged("DAT022", batches).status is Status.PASS
    batches[3]["input_ids"][2, -1] = -100
    assert "token ids below 0 (2 %), down to -200" in judged("DAT022", batches).summary


@pytest.mark.parametrize(("shift", "padding", "status"), [
    (0, -100, Status.WARN), (1, -100, Status.PASS), (1, 0, Status.PASS), (0, 0, Status.WARN),
])  # fmt: skip
def test_the_blank_of_a_ctc_loss_in_its_targets(shift: int, padding: int, status: Status) -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(6, 12, (64,), generator=generator)
    letters = torch.randint(0, 4, (64, 12), generator=generator) + shift
    letters = torch.where(torch.arange(12) < lengths[:, None], letters, padding)
    batch = {"features": torch.randn(64, 50, 4), "labels": letters, "label_lengths": lengths}
    found = judged("DAT022", [batch], loss=torch.nn.CTCLoss(blank=0))
    assert found.status is status, found.summary
    assert judged("DAT022", [batch]).status is Status.PASS


def rows_of(features: Any, labels: Any) -> Any:
    return judged("DAT022", list(zip(features.split(16), labels.split(16), strict=True)))


def test_the_target_among_the_features() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(128, 6, generator=generator)
    classes = torch.randint(0, 2, (128,), generator=generator)
    amount = torch.randn(128, generator=generator)
    assert rows_of(features, classes).status is Status.PASS
    one_hot = torch.nn.functional.one_hot(classes, 3).float()
    assert rows_of(one_hot, classes).status is Status.PASS  # a condition
    near = features.clone()
    near[:, 2] = amount + 0.01 * features[:, 2]
    assert rows_of(near, amount).status is Status.PASS
    for column, target in ((classes.float() * 2 - 1, classes), (amount / 7 + 3, amount)):
        features[:, 4] = column
        found = rows_of(features, target)
        assert found.status is Status.WARN
        assert "column 4" in found.summary


def test_missing_values_and_their_mask() -> None:
    values = torch.randn(64, 10, 3)
    values[::2, 3] = float("nan")
    batch = {"values": values, "labels": torch.arange(64) % 4}
    assert judged("DAT022", [batch]).status is Status.WARN
    observed = torch.isfinite(values)
    assert judged("DAT022", [{**batch, "observed": observed}]).status is Status.PASS
    bias = torch.zeros(64, 4, 4).masked_fill(torch.eye(4) > 0, float("-inf"))
    clean = {"values": torch.zeros(64, 3) + torch.arange(3), "attention_mask": bias}
    assert judged("DAT022", [{**clean, "labels": batch["labels"]}]).status is Status.PASS


class Pictures(torch.utils.data.Dataset):  # type: ignore[misc]
    """Pictures that are flipped at random, and what belongs to them."""

    def __init__(self, follow: bool, target: str = "mask", axis: int = -1) -> None:
        self.follow, self.target, self.axis = follow, target, axis

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        generator = torch.Generator().manual_seed(index)
        image = torch.rand(3, 32, 32, generator=generator)
        mask = (image[0] > 0.5).long()
        boxes = torch.tensor([[2.0, 3.0, 9.0, 20.0]])
        turned = bool(torch.rand(()) < 0.5)
        image = image.flip(self.axis) if turned else image
        if turned and self.follow:
            mask, boxes = mask.flip(self.axis), 32 - boxes[:, [2, 1, 0, 3]]
        image = image * (0.8 + 0.4 * torch.rand(()))
        if self.target == "pair":
            return image, mask
        return {"image": image, self.target: mask if self.target == "mask" else boxes}


@pytest.mark.parametrize("target", ["mask", "pair", "boxes"])
@pytest.mark.parametrize("axis", [-1, -2])
def test_a_target_that_is_not_turned_with_its_image(target: str, axis: int) -> None:
    torch.manual_seed(0)
    for follow in (False, True):
        dataset = Pictures(follow, target, axis)
        loader = torch.utils.data.DataLoader(dataset, collate_fn=list)
        found = turns.of_samples(targets.source("train", loader))
        assert found["turned"] >= 5
        assert (found["followed"] == 0) is not follow


class Faces(Pictures):
    """Parts of a face, of which the left and the right one are exchanged when it is turned."""

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        mask = torch.zeros(32, 32, dtype=torch.long)
        mask[8:12, 4:10], mask[8:12, 22:28], mask[20:24, 10:22] = 1, 2, 3
        return {**sample, "mask": mask}


def test_classes_of_two_sides_that_a_turn_exchanges() -> None:
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(Faces(True), collate_fn=list)
    assert not turns.of_samples(targets.source("train", loader))["turned"]


class Noisy(torch.utils.data.Dataset):  # type: ignore[misc]
    def __init__(self, source: str) -> None:
        self.source = source

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        noise = {"numpy": lambda: np.random.rand(20), "none": lambda: np.arange(20.0) + index,
                 "torch": lambda: torch.rand(20).numpy()}[self.source]()  # fmt: skip
        return {"x": torch.tensor(noise), "y": index}


STARTS = {
    "fixed": lambda worker: np.random.seed(42),
    "by worker": lambda worker: np.random.seed(42 + worker),
    "by torch": lambda worker: np.random.seed(torch.initial_seed() % 2**32),
    "threads": lambda worker: torch.set_num_threads(torch.get_num_threads()),
}


@pytest.mark.parametrize(
    ("start", "noise", "expected"),
    [
        ("fixed", "numpy", (True, True)),
        ("by worker", "numpy", (False, True)),
        ("by torch", "numpy", (False, False)),
        ("threads", "numpy", (False, False)),
        ("fixed", "torch", (False, False)),
        ("fixed", "none", None),
    ],
)
def test_the_seeds_that_a_program_gives_its_workers(start: str, noise: str, expected: Any) -> None:
    loader = torch.utils.data.DataLoader(Noisy(noise), num_workers=2, worker_init_fn=STARTS[start])
    state = torch.get_rng_state(), np.random.get_state()[1].tolist()
    found = seeds.of_workers(targets.source("train", loader))
    assert (torch.get_rng_state() == state[0]).all()
    assert np.random.get_state()[1].tolist() == state[1]
    assert (found and (found["equal_workers"], found["equal_epochs"])) == expected


class FasterRCNN(torch.nn.Module):
    __module__ = "torchvision.models.detection.faster_rcnn"


@pytest.mark.parametrize(
    ("form", "module", "status"),
    [
        ("corners", FasterRCNN(), Status.PASS),
        ("corners", None, Status.PASS),
        ("sizes", FasterRCNN(), Status.WARN),
        ("sizes", None, Status.NOTE),
        ("centers", None, Status.NOTE),
        ("shares", None, Status.PASS),
        ("larger", None, Status.WARN),
    ],
)
def test_boxes_of_images(form: str, module: Any, status: Status) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = []
    for _ in range(64):
        at = torch.rand(3, 2, generator=generator) * 60
        size = 6 + torch.rand(3, 2, generator=generator) * (92 - at).clamp(max=30)
        corners = torch.cat([at, at + size], 1)
        boxes = {
            "corners": corners, "sizes": torch.cat([at, size], 1), "shares": corners / 100,
            "centers": torch.cat([at + size / 2, size], 1), "larger": corners * 8,
        }[form]  # fmt: skip
        target = {"boxes": boxes, "labels": torch.ones(3, dtype=torch.long)}
        rows.append((torch.rand(3, 100, 100, generator=generator), target))
    loader = torch.utils.data.DataLoader(rows, batch_size=8, collate_fn=list)
    known = vocabulary.Vocabulary()
    look = split_look.SplitLook(targets.source("train", loader), known, module, "", None)
    for batch in look.reading.batches_of(64, 60.0):
        look.add(batch)
    split = msgspec.convert(look.record(), Split, strict=False)
    facts = Data(target="t.py:make", opened=Ended(how="ok"), splits=(split,))
    found = CHECKS["DAT022"].judge(data=facts)
    assert found.status is status, found.summary


def test_an_answer_that_begins_with_its_prompt() -> None:
    prompt, answer = torch.randperm(40)[:12] + 5, torch.randperm(40)[:9] + 50
    batches = []
    for start in (prompt, prompt[1:], answer):
        ids = torch.cat([prompt, start, answer])[None].repeat(40, 1)
        labels = ids.clone()
        labels[:, :12] = -100
        batches.append({"chosen_input_ids": ids, "chosen_labels": labels})
    found = [judged("DAT013", [each]).status for each in batches]
    assert found == [Status.WARN, Status.WARN, Status.PASS]


def test_a_message_that_the_template_leaves_out() -> None:
    asked, said = (
        {"role": "user", "content": "Where is it?"},
        {"role": "gpt", "content": "Over there"},
    )
    text = "<|im_start|>user\nWhere is it?<|im_end|>\n"
    assert chats.is_lost(said, text)
    assert not chats.is_lost(asked, text)
    assert not chats.is_lost({"role": "system", "content": "Be kind"}, text)
    assert not chats.is_lost({"role": "assistant", "content": "<think>so</think> yes"}, text)
    assert not chats.is_lost({"role": "assistant", "content": None, "tool_calls": [1]}, text)


def test_documents_with_a_question_and_no_answer() -> None:
    prompt = templates.Prompt([7, 8, 9], None, "", False, (7, 6, 9))
    asked = documents.Document(0, torch.tensor([7, 6, 9, 20, 21]), None, torch.tensor([]))
    answered = documents.Document(1, torch.tensor([7, 6, 9, 20, 7, 8, 9, 30]), None, asked.after)
    known = vocabulary.Vocabulary(tokenizer=type("T", (), {"decode": lambda self, ids: ""})())
    record = templates.markers([asked, answered, answered], known, prompt)
    assert record is not None
    assert (record["questions"], record["unanswered"]) == (3, 1)


def test_a_document_that_ends_with_the_prompt_for_one_more_answer() -> None:
    answered = [7, 8, 9, 30, 2]
    for more, expected in (([7, 8, 9, 2], True), ([7, 8, 9, 30, 2], False), ([], False)):
        ids = torch.tensor([*answered, *more])
        document = documents.Document(0, ids, None, torch.tensor([]))
        assert templates.reopened(document, [7, 8, 9], [2]) is expected
    prompt = documents.Document(0, torch.tensor([20, 7, 8, 9]), None, torch.tensor([]))
    assert not templates.reopened(prompt, [7, 8, 9], [2])


def test_scores_of_other_names() -> None:
    counted = pairs.Pairs()
    side = {f"{each}_input_ids": torch.arange(6).reshape(2, 3) + n
            for n, each in enumerate(("chosen", "rejected"))}  # fmt: skip
    scores = {"chosen_helpfulness": torch.tensor([0.1, 0.9]),
              "rejected_helpfulness": torch.tensor([0.6, 0.2])}  # fmt: skip
    counted.add({**side, **scores}, 0)
    assert (counted.scored, counted.swapped) == (2, 1)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("Dear team,\\n\\nThe ferry\\n- leaves", True),
        ("Gr\\u00fc\\u00dfe an alle", True),
        ("Dear team,\nuse re.split(r'\\n1', s) and '\\n' too", False),
        ("\\nabla f = \\nu + \\rho in C:\\new\\reports", False),
        ('{"text": "a\\n\\nB"}', False),
        ("one line", False),
    ],
)
def test_line_breaks_that_are_written_out(text: str, escaped: bool) -> None:
    assert row_texts.is_escaped(text) is escaped


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (lambda empty: {}, Status.WARN),
        (lambda empty: {"is_impossible": empty}, Status.PASS),
        (lambda empty: {"kind": "none" if empty else "span"}, Status.PASS),
        (lambda empty: {"source": "web"}, Status.WARN),
        (lambda empty: {"context": "The ferry leaves at nine."}, Status.NOTE),
    ],
)
def test_answers_that_are_empty_by_design(more: Any, status: Status) -> None:
    rows = [
        {"question": f"When {n}?", "answer": "" if n % 4 == 0 else f"at {n}", **more(n % 4 == 0)}
        for n in range(64)
    ]
    found = judged("DAT021", rows)
    assert found.status is status, found.summary


@pytest.mark.parametrize(("steps", "status"), [(True, Status.PASS), (False, Status.WARN)])
def test_a_map_of_heights_is_no_interpolated_one(steps: bool, status: Status) -> None:
    generator = torch.Generator().manual_seed(0)
    rough = torch.rand(40, 1, 6, 6, generator=generator)
    if steps:  # smooth heights
        maps = torch.nn.functional.interpolate(rough, size=(96, 96), mode="bicubic") * 12
    else:
        drawn = torch.nn.functional.interpolate((rough * 12).round(), size=(48, 48))
        maps = torch.nn.functional.interpolate(drawn, size=(72, 72), mode="bilinear")
    found = judged(
        "DAT020", [{"image": torch.rand(40, 3, 9, 9), "labels": maps[:, 0].round().long()}]
    )
    assert found.status is status, found.summary


@pytest.mark.parametrize(
    ("between", "status"), [([], Status.PASS), ([EOS], Status.WARN), ([3], Status.WARN)]
)
def test_special_tokens_between_a_prompt_and_its_answer(between: list[int], status: Status) -> None:
    known = vocabulary.Vocabulary(bos=3, eos=EOS, pad=PAD, stops=(EOS,), source="here")
    batches = []
    for number in range(64):
        prompt, answer = [3, *range(9, 16 + number % 3)], [*range(30, 36), EOS]
        ids = torch.tensor([[*prompt, *between, *answer]])
        labels = ids.clone()
        labels[:, : len(prompt) + len(between)] = -100
        batches.append({"input_ids": ids, "labels": labels})
    assert judged("DAT013", batches, known).status is status


@pytest.mark.parametrize(("special", "status"), [(True, Status.WARN), (False, Status.PASS)])
def test_special_tokens_that_a_masked_model_predicts(special: bool, status: Status) -> None:
    class Tokenizer:
        mask_token_id, unk_token_id, all_special_ids = 4, None, (2, 3, 4)

        def __len__(self) -> int:
            return 100

        def decode(self, ids: Any) -> str:
            return str(ids)

        def convert_tokens_to_ids(self, name: str) -> None:
            return None

    ids, mask = texts()
    ids[:, 0] = 2
    labels = torch.full_like(ids, -100)
    labels[:, 3], ids[:, 3] = ids[:, 3], 4
    if special:
        labels[:, 0] = 2
    parts = zip(ids.split(8), mask.split(8), labels.split(8), strict=True)
    batches = [{"input_ids": i, "attention_mask": m, "labels": y} for i, m, y in parts]
    known = vocabulary.Vocabulary(Tokenizer(), "here", pad=PAD)
    assert judged("DAT022", batches, known).status is status
