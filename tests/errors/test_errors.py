"""The table of errors: every row is found by its messages, quickly, and has a name of its own."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from collections import Counter
from re import _constants as opcodes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from error_index import messages

from doctor import catalog
from doctor.cli.explain.name import explain
from doctor.errors.cause import Cause, Wording
from doctor.errors.causes import BY_ID, CAUSES
from doctor.errors.fitted import fitted
from doctor.errors.match import LONGEST, MOST, holds, is_message_of, message_of, with_message
from doctor.errors.retired import RETIRED
from doctor.judge.names import names_of
from doctor.judge.sources import SOURCES

COMMANDS = ("run", "guard", "lint", "scan", "triage", "prescribe", "read")
UNCAUGHT = "uncaught-exception"
ROWS = pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)


@ROWS
def test_each_expression_has_an_example_and_each_example_proposes_the_cause(cause: Cause) -> None:
    flags = re.IGNORECASE | re.MULTILINE
    for expression in cause.messages:
        assert any(re.search(expression, each, flags) for each in cause.examples), expression
    for example in cause.examples:
        assert is_message_of(cause, example), example
        proposed = with_message(example, symptoms=True)
        refined = any(cause.id in each.refines for each in proposed)
        assert cause in proposed or cause.code or refined or len(proposed) == MOST, example


@ROWS
def test_a_row_is_complete(cause: Cause) -> None:
    assert (
        cause.messages or cause.role == "setting" or cause.id == "uncaught-exception" or cause.words
    )
    assert bool(cause.words) == (cause.role == "symptom")
    assert cause.why
    assert all(each.why and each.fix for each in cause.wordings)
    assert len({each.message for each in cause.wordings}) == len(cause.wordings)
    assert cause.fix or cause.role == "harmless"
    assert not cause.next_check or catalog.find(cause.next_check)
    assert set(cause.sources) <= set(SOURCES)
    form = r"[a-z0-9]+(-[a-z0-9]+)*" if cause.code else r"[a-z0-9]+(-[a-z0-9]+)+"
    assert re.fullmatch(form, cause.id), "two words at least, so that it is no keyword"


@pytest.mark.parametrize(
    ("cause", "wording"), [(each, own) for each in CAUSES for own in each.wordings]
)
def test_a_wording_has_its_own_reason_and_fix(cause: Cause, wording: Wording) -> None:
    assert re.search(wording.message, wording.example, re.IGNORECASE | re.MULTILINE)
    given = fitted(cause, wording.example)
    first = next(each for each in cause.wordings if holds(each.message, wording.example))
    assert first is wording, "an earlier wording hides this one"
    assert given.why == wording.why
    assert wording.fix in given.fix


def test_names_are_unique_and_a_retired_one_names_its_successor() -> None:
    assert [name for name, count in Counter(each.id for each in CAUSES).items() if count > 1] == []
    of_checks = {name.casefold(): each.code for each in catalog.CHECKS for name in names_of(each)}
    for cause in CAUSES:
        assert of_checks.get(cause.id, cause.code) == cause.code, cause.id
    assert not set(RETIRED) & (set(BY_ID) | set(of_checks))
    assert set(RETIRED.values()) <= set(BY_ID)


@pytest.mark.parametrize("id", RETIRED)
def test_a_retired_name_is_explained_as_its_successor(id: str) -> None:
    assert explain(id) == explain(RETIRED[id])


def unbounded(parsed: Any) -> bool:
    """Whether an expression repeats without an end what may be any character."""
    return any(_is_unbounded(opcode, argument) for opcode, argument in parsed)


def _is_unbounded(opcode: Any, argument: Any) -> bool:
    if opcode in (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT):
        _, most, inner = argument
        kind, what = inner[0]
        wide = kind in (opcodes.ANY, opcodes.NOT_LITERAL)
        wide = wide or (kind is opcodes.IN and what[0][0] is opcodes.NEGATE)
        return (most == opcodes.MAXREPEAT and wide) or unbounded(inner)
    if opcode is opcodes.SUBPATTERN:
        return unbounded(argument[-1])
    return opcode is opcodes.BRANCH and any(map(unbounded, argument[1]))


@ROWS
def test_no_expression_has_an_unbounded_gap(cause: Cause) -> None:
    assert [each for each in cause.messages if unbounded(parser.parse(each))] == []
    assert unbounded(parser.parse("abcd.*efgh"))
    assert unbounded(parser.parse("abcd(?:[^x]+efgh|y)"))


def seconds(text: str, search: Any) -> float:
    """The least of three, of the processor, which other processes do not add to."""

    def once() -> float:
        began = time.thread_time()
        search(text)
        return time.thread_time() - began

    return min(once() for _ in range(3))


@ROWS
def test_hostile_text_of_a_rows_own_words_is_as_quick_as_any(cause: Cause) -> None:
    """At most 100 times a search for one class of characters: nested repetitions take longer."""
    chance = random.Random(0)
    pieces = [piece for each in cause.examples for piece in re.findall(r"\S+\s?", each)]
    text = "".join(chance.choices([*pieces, "9" * 40, "'" * 20, "("], k=2_000))[:LONGEST]
    is_message_of(cause, text)  # compiles
    plain = re.compile(r"[a-z]{1,9}[^\x00-\x7f]")
    share = seconds(text, lambda text: is_message_of(cause, text)) / max(1, len(cause.messages))
    assert share < 100 * max(seconds(text, plain.search), 1e-4)


@ROWS
def test_every_row_can_be_explained(cause: Cause) -> None:
    assert cause.id in explain(cause.id)
    assert cause.why[:20] in explain(cause.id, "markdown").replace("\\", "")
    assert '"fix"' in explain(cause.id, "json")


def with_class(row: dict[str, str]) -> str:
    """The message as Python prints it at the end of a traceback."""
    return f"{row['error']}: {row['message']}" if row["error"] else row["message"]


def test_the_messages_of_the_corpora_propose_the_cause_that_a_run_names() -> None:
    rows = messages()
    proposed = [[each.id for each in with_message(with_class(row))] for row in rows]
    named = [(ids, row["cause"]) for ids, row in zip(proposed, rows, strict=True) if row["cause"]]
    assert {cause for _, cause in named} <= set(BY_ID)
    assert len(rows) > 300
    assert sum(map(bool, proposed)) >= 0.98 * len(rows)
    assert sum(cause in ids for ids, cause in named) >= 0.98 * len(named)
    assert sum(cause in ids[:1] for ids, cause in named) >= 0.8 * len(named)


TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    raise KeyError("labels")  # CUDA out of memory
KeyError: 'labels'
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("KeyError: 'labels'", "KeyError: 'labels'"),
        (TRACEBACK, "KeyError: 'labels'"),
        (f"starts\n{TRACEBACK}", "starts\nKeyError: 'labels'"),
        (f"ValueError: a\nException ignored in: <a>\n{TRACEBACK}", "ValueError: a"),
    ],
)
def test_a_stack_and_what_python_ignored_are_no_message(text: str, message: str) -> None:
    assert message_of(text) == message


@pytest.mark.slow
def test_the_rows_need_no_libraries() -> None:
    code = (
        "import sys, doctor.errors.match; "
        "assert not {'msgspec', 'torch', 'doctor.facts', 'doctor.judge'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


@pytest.mark.parametrize(
    "cause", [each for each in CAUSES if each.refines], ids=lambda cause: cause.id
)
def test_a_row_refines_lines_of_its_class(cause: Cause) -> None:
    for id in cause.refines:
        assert not (cause.code and BY_ID[id].code)
        assert any(is_message_of(BY_ID[id], example) for example in cause.examples)


def test_a_symptom_names_a_command_that_decides_and_no_message_of_a_program() -> None:
    symptoms = [row for row in CAUSES if row.role == "symptom"]
    assert len(symptoms) >= 50
    for row in symptoms:
        assert any(command.startswith("doctor ") for command in row.commands), row.id
        assert not row.code
        assert not row.errors
        for command in row.commands:
            words = command.split()
            assert words[0] != "doctor" or words[1] in COMMANDS, command


MISSING = "FileNotFoundError: [Errno 2] No such file or directory: "


@pytest.mark.parametrize(
    ("cause", "message", "other"),
    [
        ("directory-shared-by-ranks",
         f"{MISSING}'/scratch/triton-u/3QF/k.so.tmp.pid_41222_88121' -> '/scratch/3QF/k.so'",
         f"{MISSING}'/opt/triton/model_repository/llama/1/model.py'"),
        ("directory-shared-by-ranks",
         f"{MISSING}'/home/u/.triton/cache/3QFZ7K/launcher.so'",
         f"{MISSING}'/home/u/tritonserver/models/bert/config.pbtxt'"),
        ("directory-shared-by-ranks",
         f"{MISSING}'/tmp/torchinductor_u/ab/.4711.tmp' -> '/tmp/torchinductor_u/ab/k.py'",
         f"{MISSING}'/home/u/.cache/torch_extensions/py310_cu121/fused_adam/build.ninja'"),
        ("input-channel-missing",
         f"{MISSING}'/opt/ml/input/data/train'",
         f"{MISSING}'/opt/ml/input/data/train/resume/last.ckpt'"),
        ("input-channel-missing",
         "/opt/ml/input/data/validation does not exist",
         f"{MISSING}'/opt/ml/input/config/hyperparameters.json'"),
        ("dataset-paths-of-yaml",
         "RuntimeError: Dataset 'a.yaml' error ❌ Dataset 'a.yaml' images not found ⚠️, missing "
         "path '/d/images'",
         "RuntimeError: Dataset 'data.yaml' error: dataset checksum failed, disk full"),
        ("engine-limits-exceeded",
         "ValueError: max_tokens must be at least 1, got -239.",
         "ValueError: max_tokens must be at least 1, got 0."),
        ("driver-module-fails",
         "GPU0 _kgspFwContainerVerifyVersion: GSP firmware image version mismatch:",
         "WARNING: firmware version mismatch of the network adapter"),
        ("state-dict-keys",
         'Missing key(s) in state_dict: "model.query.base_layer.weight", "model.query.lora_A.w"',
         'Missing adapter keys while loading the checkpoint: "model.query.lora_A.weight"'),
        ("quantized-training",
         "ValueError: this fp8 checkpoint is not trainable",
         "ValueError: the fp8 scale buffer is not trainable, pass requires_grad=False"),
        ("parameters-are-partitioned",
         "RuntimeError: The tensor has a non-zero number of elements, but its data is not "
         "allocated yet. Caffe2 uses a lazy allocation",
         "RuntimeError: The tensor has a non-zero number of elements, but its data is not "
         "allocated yet.\nIf you're using torch.compile/export/fx, it is likely that we are "
         "erroneously tracing into a custom kernel."),
    ],
)  # fmt: skip
def test_a_message_is_of_a_row_and_what_looks_like_it_is_not(
    cause: str, message: str, other: str
) -> None:
    assert with_message(message)[0].id == cause
    found = with_message(other)
    assert not found or found[0].id != cause


@pytest.mark.parametrize(
    ("last", "first"),
    [
        ('"/opt/site-packages/trl/trainer/sft.py", line 3, in f', "raised-inside-a-library"),
        ("/opt/site-packages/unsloth_zoo/gemma.py:3, in g.f(x)", "raised-inside-a-library"),
        ('"/home/u/own/collate.py", line 3, in f', "value-is-none"),
        ('"/home/u/train_peft.py", line 3, in f', "value-is-none"),
        ('"/home/u/swift/net.py", line 3, in f', "value-is-none"),
    ],
)
def test_the_last_frame_of_a_stack_tells_whether_a_library_raised(last: str, first: str) -> None:
    above = '  File "/opt/site-packages/trl/trainer/sft.py", line 9, in g\n    f(x)\n'
    error = "AttributeError: 'NoneType' object has no attribute 'to'\n"
    text = f"Traceback (most recent call last):\n{above}  File {last}\n    x.to(0)\n{error}"
    assert with_message(message_of(text), around=text)[0].id == first
    assert with_message(message_of(text))[0].id == "value-is-none"


def test_without_compile_a_tensor_without_memory_may_be_a_partitioned_one() -> None:
    text = (
        "RuntimeError: The tensor has a non-zero number of elements, but its data is not allocated "
        "yet.\nIf you're using torch.compile/export/fx, it is likely that we are erroneously"
    )
    found = [each.id for each in with_message(text)]
    assert found == ["extension-meets-fake-tensor", "parameters-are-partitioned"]


def test_no_remedy_deletes_a_checkpoint() -> None:
    """An asynchronous save may be under way."""
    said = [f"{row.fix} {' '.join(row.commands)}" for row in CAUSES]
    assert not [each for each in said if re.search(r"(?:delete|remove|rm) .{0,20}checkpoint", each)]
