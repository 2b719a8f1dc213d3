"""The contract of a factory: one text in the package, in docs/own-model.md and in the probe."""

from __future__ import annotations

import ast
import json
import re

import pytest
from paths import ROOT

from doctor.cli.explain.name import explain
from doctor.collect.child import PROBES
from doctor.report import own_model

PAGE = ROOT / "docs" / "own-model.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documents are not at hand")
def test_the_page_holds_the_contract() -> None:
    assert own_model.markdown() in PAGE.read_text("utf-8"), (
        "write `doctor explain model --format markdown` there"
    )


@pytest.mark.parametrize("name", ["model", "own-model", "Factory", "--model"])
def test_each_name_is_answered(name: str) -> None:
    text = explain(name)
    assert text == own_model.plain()
    assert max(map(len, text.splitlines())) <= 96
    for word in ("argparse", "hydra", "LightningModule", "Trainer", "__init__.py", "DataLoader"):
        assert word in text


def test_programs_read_the_same() -> None:
    (topic,) = json.loads(explain("model", "json"))["topics"]
    assert topic["name"] == "model"
    forms = [form["returns"] for part in topic["parts"] for form in part["forms"]]
    assert forms == [form.returns for form in own_model.FORMS]
    assert explain("model", "markdown") == own_model.markdown()


def test_the_keys_are_those_that_the_probe_reads() -> None:
    module = ast.parse((PROBES / "training_side" / "subject" / "contract.py").read_text("utf-8"))
    assigned = [node for node in module.body if isinstance(node, ast.Assign)]
    keys = next(ast.literal_eval(each.value) for each in assigned
                if getattr(each.targets[0], "id", "") == "KEYS")  # fmt: skip
    form = next(form.returns for form in own_model.FORMS if form.returns.startswith("`{"))
    assert tuple(re.findall(r'"(\w+)":', form)) == keys
