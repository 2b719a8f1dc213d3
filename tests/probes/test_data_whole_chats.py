"""Chats that train all their tokens."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from doctor.checks.data.prompts import MEANINGS  # noqa: E402
from doctor.checks.data.relations import verdicts  # noqa: E402
from doctor.facts.data_rows import Relation  # noqa: E402
from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import whole_chats  # noqa: E402
from doctor.probes.training_side.data.documents import Document  # noqa: E402
from doctor.probes.training_side.data.vocabulary import of_objects  # noqa: E402


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = ["<unk>", "</s>", "<|user|>", "<|bot|>", "user", "a", "b", "c"]
    plain = Tokenizer(models.WordLevel({name: n for n, name in enumerate(names)}, "<unk>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token="</s>", unk_token="<unk>",
        additional_special_tokens=["<|user|>", "<|bot|>"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "masked", "numbers"),
    [
        ("<|user|> a <|bot|> b </s>", 0, (60,)),
        ("<|user|> a <|bot|> b <|user|> c <|bot|> a b c </s>", 0, (64,)),
        ("<|user|> a <|bot|> b </s>", 3, None),  # the answer alone
        ("a b c user a </s>", 0, None),  # a text
        ("<|bot|> a <|user|> b </s>", 0, None),  # no answer behind a question
    ],
)
def test_chats_that_train_all_their_tokens_are_a_note(
    text: str, masked: int, numbers: tuple[int, ...] | None
) -> None:
    made = tokenizer()
    ids = torch.tensor(made(text)["input_ids"])
    labels = ids.clone()
    labels[:masked] = -100
    documents = [Document(row, ids, labels, ids[:0]) for row in range(40)]
    records = whole_chats.trained(documents, of_objects(made, None, None, ""))
    if numbers is None:
        assert records == []
        return
    ((record),) = records
    assert (record["part"], record["whole"], record["numbers"]) == (40, 40, list(numbers))
    fields = {key: value for key, value in record.items() if key in ("kind", "part", "whole")}
    (verdict,) = verdicts([Relation(**fields, numbers=numbers)], MEANINGS)
    assert verdict.status is Status.NOTE
    assert f"{numbers[0]} % of these stand before the last answer" in verdict.summary
