"""A dataset is given the tokenizer whose end token is the padding, and writes it, or does not."""

from __future__ import annotations

import pytest
from script_code import codes

CODE = """
from transformers import (AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling,
                          Trainer)
class Answers:
    def __init__(self, data, tok):
        self.tok, self.data = tok, data
        self.kept = tok
        self.rows = []
        for q, a in data:
            {init}
    def __getitem__(self, i):
        {item}
        return self.rows[i]
def main():
    tok = AutoTokenizer.from_pretrained("gpt2")
    other = AutoTokenizer.from_pretrained("other")
    tok.pad_token = {pad}
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    collator = DataCollatorForLanguageModeling(tok, mlm=False)
    data = Answers(pairs, {given})
    Trainer(model=model, train_dataset=data, data_collator=collator).train()
main()
"""
PARTS = {"init": "pass", "item": "pass", "pad": "tok.eos_token", "given": "tok"}
ENDED = 'self.rows.append(tok(f"{q} {a}{tok.eos_token}"))'


@pytest.mark.parametrize(
    "parts",
    [
        {"init": ENDED},
        {"init": "self.rows.append(tok(q + a + tok.eos_token))"},
        {"item": "text = self.data[i] + self.kept.eos_token"},
    ],
)
def test_the_end_that_a_dataset_writes_is_masked(parts: dict[str, str]) -> None:
    assert codes(CODE.format(**(PARTS | parts))).get("collator-labels") == "warn"


@pytest.mark.parametrize(
    "parts",
    [
        {"init": ENDED, "given": "other"},
        {"init": ENDED, "pad": "'[PAD]'"},
        {"init": "self.rows.append(tok(q + a))"},
        {"init": 'print(f"ends with {tok.eos_token}")'},
        {"item": 'text = self.data[i].replace(self.kept.eos_token, "")'},
    ],
)
def test_a_dataset_whose_ends_are_learned(parts: dict[str, str]) -> None:
    assert "collator-labels" not in codes(CODE.format(**(PARTS | parts)))


def test_the_end_token_is_printed() -> None:
    code = CODE.format(**PARTS).replace(
        "    data = A", '    print(f"{tok.eos_token}")\n    data = A'
    )
    assert "collator-labels" not in codes(code)
