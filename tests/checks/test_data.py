"""DAT: judges over records of what a loader delivered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from data_facts import CHECKS, HOST, MIXING, data, verdict

from doctor._util.records import Ended, Unknown
from doctor.collect.data import Notes
from doctor.facts.data import Data, Offset, Problem, Split
from doctor.facts.data_batches import (
    Agreement,
    Boxes,
    Column,
    Indices,
    Inputs,
    LabelMaps,
    Pace,
    Seeds,
    Workers,
)
from doctor.facts.data_rows import (
    Cut,
    Leak,
    Markers,
    Numbering,
    Overlap,
    Pairs,
    Rendered,
    Repeats,
    RowTexts,
    Sentinel,
    Shards,
    Spellings,
)
from doctor.facts.own_model import OwnModel, Trend
from doctor.facts.training import Smoke
from doctor.judge.check import Status


@pytest.mark.parametrize("code", CHECKS)
def test_healthy_data_are_neither_warned_of_nor_failed(code: str) -> None:
    assert verdict(code, data()).status in (Status.PASS, Status.SKIP)


@pytest.mark.parametrize("code", sorted(set(CHECKS) - {"DAT018"}))
def test_nothing_read_is_never_healthy(code: str) -> None:
    nothing = Data(target="train.py:make", opened=Ended(how="ok"))
    assert verdict(code, nothing).status in (Status.UNKNOWN, Status.SKIP)


@pytest.mark.parametrize(
    ("fields", "status", "word"),
    [
        ({"unlabelled": 256, "rows": (0,)}, Status.FAIL, "no trained label"),
        ({"unlabelled": 13, "rows": (3, 9)}, Status.WARN, "rows 3, 9"),
        ({"unlabelled": 13, "full": 13}, Status.WARN, "fills the whole length"),
        ({"unlabelled": 12}, Status.PASS, "256 of 51,000 rows"),
        ({"unlabelled": 4, "documents": 8}, Status.NOTE, "8 were read"),
        ({"unlabelled": 8, "documents": 8}, Status.FAIL, "8 documents"),
        ({"unlabelled": 40, "objective": "other tokens"}, Status.SKIP, "by chance"),
        ({"unlabelled": 256, "objective": "other tokens"}, Status.FAIL, "-100"),
        ({"dropped": 51_000}, Status.NOTE, "a filter or a selection"),
        ({"dropped": 20}, Status.PASS, "256 of 51,000 rows"),
    ],
)
def test_rows_without_a_trained_label(fields: dict[str, Any], status: Status, word: str) -> None:
    found = verdict("DAT001", data(labels=fields))
    assert found.status is status
    assert word in found.summary


WHOLE = {"stopped": 0, "answers": 0, "whole": 90}


@pytest.mark.parametrize(
    ("stops", "status", "word"),
    [
        ({"stopped": 0, "ends": {"<|im_end|>": 256}}, Status.WARN, "<|im_end|>"),
        ({"stopped": 0, "masked_ends": 256}, Status.WARN, "masked"),
        ({"stopped": 0}, Status.WARN, "no stop"),
        ({"stopped": 40}, Status.PASS, "40 of 256"),
        ({"stopped": 0, "at_limit": 256}, Status.UNKNOWN, "longest"),
        ({"stopped": 0, "ends": {"<e>": 256}, "stated": False}, Status.NOTE, "generation_config"),
        ({"stopped": 0, "answers": 0, "chats": 90, "untrained": 90}, Status.WARN, "no label of it"),
        ({"stopped": 0, "answers": 0, "chats": 90, "untrained": 3}, Status.PASS, "3 of 90"),
        ({"stopped": 0, "answers": 0}, Status.SKIP, "no row has a prompt"),
        (WHOLE | {"chats": 90, "untrained": 90}, Status.WARN, "90 of 90 documents end"),
        (WHOLE | {"chats": 90}, Status.PASS, "0 of 90"),
        (WHOLE | {"unended": 90, "tokens": 9000}, Status.NOTE, "90 rows of one length"),
        (WHOLE | {"unended": 90, "tokens": 900}, Status.SKIP, "no row has a prompt"),
        (WHOLE | {"unended": 80, "tokens": 9000}, Status.SKIP, "no row has a prompt"),
        (WHOLE | {"open": 90}, Status.WARN, "begin alike"),
        (WHOLE | {"open": 40}, Status.SKIP, "no row has a prompt"),
    ],
)
def test_the_stop_that_is_trained(stops: dict[str, Any], status: Status, word: str) -> None:
    found = verdict("DAT002", data(stops=stops))
    assert found.status is status
    assert word in found.summary
    assert verdict("DAT002", data(stops=Unknown(reason="no tokenizer"))).status is Status.UNKNOWN


def test_the_remedy_for_another_stop_names_it() -> None:
    found = verdict("DAT002", data(stops={"stopped": 0, "ends": {"<|im_end|>": 256}}))
    assert found.fix is not None
    assert "<|im_end|>" in found.fix


def test_cut_answers_are_named_with_the_lengths() -> None:
    found = verdict("DAT003", data(stops={"cut": 30, "stopped": 226}))
    assert found.status is Status.WARN
    assert "p95 60" in found.summary
    assert verdict("DAT003", data(stops={"cut": 5})).status is Status.PASS


@pytest.mark.parametrize(("twice", "status"), [(256, Status.WARN), (5, Status.PASS)])
def test_two_tokens_for_the_beginning(twice: int, status: Status) -> None:
    assert verdict("DAT004", data(starts={"twice": twice})).status is status


@pytest.mark.parametrize(
    ("padding", "status", "word"),
    [
        ({"trained": 900, "trained_rows": (0, 1)}, Status.WARN, "rows 0, 1"),
        ({"excluded": 0, "padded": 90, "attended": 90}, Status.WARN, "mask includes"),
        ({"excluded": 0, "padded": 90, "labelled": 90}, Status.WARN, "train a run"),
        ({"excluded": 0, "padded": 90, "labelled": 90, "loss_known": False}, Status.NOTE, "unless"),
        ({"excluded": 0, "padded": 90}, Status.PASS, "not trained"),
        ({"excluded": 0}, Status.SKIP, "padded"),
    ],
)
def test_padding(padding: dict[str, Any], status: Status, word: str) -> None:
    found = verdict("DAT005", data(padding=padding))
    assert found.status is status
    assert word in found.summary


@pytest.mark.parametrize(
    ("labels", "loss", "status", "word"),
    [
        ("0", {"1": 16}, Status.PASS, "t+1"),
        ("1", {"0": 16}, Status.PASS, "t+1"),
        ("1", {"1": 16}, Status.FAIL, "t+2"),
        ("0", {"0": 16}, Status.FAIL, "token t:"),
        ("0", {"1": 8, "3": 8}, Status.UNKNOWN, "not measured"),
        ("2", None, Status.FAIL, "t+2"),
        ("1", None, Status.SKIP, "needs a model"),
    ],
)
def test_the_shift_of_labels_and_loss(
    labels: str, loss: dict[str, int] | None, status: Status, word: str
) -> None:
    offset = Offset(positions=16, shifts=loss) if loss else None
    found = verdict("DAT006", data(offset, labels={"matches": {labels: 2990}}))
    assert found.status is status
    assert word in found.summary


@pytest.mark.parametrize(
    ("problem", "fix"),
    [
        (Problem(error="JSONDecodeError", row=61, line=True), "Line 61 is cut off or is not JSON"),
        (
            Problem(error="UnicodeDecodeError", row=2, line=True, place="b.jsonl"),
            "Line 2 of b.jsonl is not UTF-8",
        ),
        (Problem(error="JSONDecodeError", row=61), ""),  # of the user's own reader
        (Problem(error="a row of another number of columns", row=4, line=True), ""),
    ],
)
def test_the_fix_names_the_line_and_what_is_wrong_with_it(problem: Problem, fix: str) -> None:
    found = verdict("DAT018", data(problem=problem, ended="error"))
    assert (found.fix or "").startswith(fix)
    assert bool(found.fix) is bool(fix)


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (
            Problem(
                error="the directory has no file that ends in .jsonl, .csv; it holds a.conll",
                reason="form",
            ),
            Status.UNKNOWN,
        ),
        (Problem(error="a Parquet file needs the package pyarrow", reason="package"),
         Status.UNKNOWN),
        (Problem(error="no file is in the directory, and files of rows end in .jsonl, .csv"),
         Status.FAIL),
        (Problem(error="not a regular file"), Status.FAIL),
    ],
)  # fmt: skip
def test_a_format_that_is_not_read_is_no_fault(problem: Problem, status: Status) -> None:
    ended = Ended(how="error", detail="NotData")
    facts = Data(target="rows", opened=ended, problem=problem)
    assert verdict("DAT018", facts).status is status


def test_an_offset_that_was_not_measured_is_unknown() -> None:
    assert verdict("DAT006", data(Unknown(reason="no embedding"))).status is Status.UNKNOWN


def test_what_was_not_delivered_fails_with_its_place() -> None:
    problem = Problem(error="KeyError", place="train.py:31", batch=3)
    found = verdict("DAT018", data(problem=problem, ended="error"))
    assert found.status is Status.FAIL
    assert "KeyError at train.py:31, in batch 3" in found.summary
    assert verdict("DAT018", data(rows=0)).status is Status.FAIL
    assert verdict("DAT018", data(ended="hang")).status is Status.FAIL
    unread = Data(target="t", opened=Ended(how="ok"), died="SIGSEGV")
    assert verdict("DAT018", unread).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("JSONDecodeError", "several arrays one after another"),
        ("UnicodeDecodeError", "encoding= of open"),
    ],
)
def test_a_line_of_another_form_gets_a_remedy_for_it(error: str, words: str) -> None:
    problem = Problem(error=error, row=4927, line=True)
    fix = verdict("DAT018", data(problem=problem, ended="error")).fix or ""
    assert "4,927" in fix
    assert words in fix


@pytest.mark.parametrize(
    ("how", "status"),
    [("timeout", Status.UNKNOWN), ("budget", Status.UNKNOWN), ("signal", Status.FAIL)],
)
def test_a_factory_that_outlasts_the_doctor_is_unknown(how: Any, status: Status) -> None:
    ended = Ended(how=how, detail="no answer in 140 s inside call the factory")
    found = verdict("DAT018", Data(target="t", opened=ended))
    assert found.status is status
    assert "call the factory" in found.summary


def test_rows_that_nothing_could_read_are_not_at_fault() -> None:
    ended = Ended(how="error", detail="ModuleNotFoundError")
    found = verdict("DAT018", Data(target="rows.jsonl", opened=ended))
    assert found.status is Status.UNKNOWN
    assert "--python" in found.summary


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("the secret of a row: 3", "error"),
        ("the secret of an Error: 3", "error"),
        ("secret", "error"),
        ("torch.OutOfMemoryError: the secret of a row", "torch.OutOfMemoryError"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_the_last_line_of_a_process_gives_its_class_alone(line: str, word: str) -> None:
    made = Notes().data("t", Ended(how="error", detail=line), 1.0)
    assert isinstance(made, Data)
    assert (made.opened.detail, made.died) == (word, word)


LONG = {"rows": 5_000, "telling": 5_000}


@pytest.mark.parametrize(
    ("shared", "status"), [(0, Status.PASS), (49, Status.PASS), (50, Status.WARN)]
)
def test_rows_of_two_splits(shared: int, status: Status) -> None:
    overlap = Overlap(train=9_000, shared=shared, pairs=((3, 17),), **LONG)
    facts = msgspec.structs.replace(data(), overlap=overlap)
    found = verdict("DAT007", facts)
    assert found.status is status
    assert status is Status.PASS or "train 3 = eval 17" in found.summary


@pytest.mark.parametrize(
    ("shared", "rows", "ended", "status"),
    [
        (10, 10, "complete", Status.WARN),
        (5, 10, "complete", Status.WARN),
        (4, 10, "complete", Status.NOTE),
        (7, 7, "complete", Status.NOTE),
        (10, 10, "samples", Status.NOTE),
    ],
)
def test_most_of_a_small_evaluation_is_no_chance(
    shared: int, rows: int, ended: Any, status: Status
) -> None:
    overlap = Overlap(train=331, rows=rows, telling=rows, shared=shared, pairs=((0, 0),))
    train = data().splits[0]
    other = msgspec.structs.replace(train, name="eval", rows=rows, total=None, ended=ended)
    facts = msgspec.structs.replace(data(), overlap=overlap, splits=(train, other))
    assert verdict("DAT007", facts).status is status


@pytest.mark.parametrize(
    ("fields", "status", "fix"),
    [
        ({"shared": 900, "copied": 890}, Status.WARN, "oversample"),
        ({"shared": 900, "drawn_twice": True}, Status.WARN, "Draw the split once"),
        ({"shared": 900, "copied": 9}, Status.WARN, ""),
        ({"repeated": 900}, Status.NOTE, "if rows were oversampled"),
        ({"repeated": 9}, Status.PASS, ""),
    ],
)
def test_why_rows_are_in_two_splits(fields: dict[str, Any], status: Status, fix: str) -> None:
    overlap = Overlap(train=9_000, **fields, **LONG)
    found = verdict("DAT007", msgspec.structs.replace(data(), overlap=overlap))
    assert found.status is status
    assert fix in (found.fix or "")
    assert "repeated" not in fields or "three times or more" in found.summary
    assert f"{sum(fields.get(n, 0) for n in ('shared', 'repeated')):,} of " in found.summary
    assert "(0 %)" not in found.summary


def test_the_only_class_beyond_the_others_may_be_ignored() -> None:
    classes = Indices(kind="classes", entries=5, table="the model's output", highest=255, beyond=9)
    for alone, expected in ((True, True), (False, False)):
        each = msgspec.structs.replace(classes, alone=alone)
        found = verdict("DAT022", data(agreement=Agreement(rows=256, indices=(each,))))
        assert found.status is Status.FAIL
        assert ("ignore_index=255" in (found.fix or "")) is expected
        assert found.sources == ("torch-cross-entropy",)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, Status.PASS),
        ({"labelled": 5_000, "conflicting": 25, "pairs": ((1, 4),)}, Status.WARN),
        ({"labelled": 5_000, "conflicting": 24}, Status.PASS),
        ({"repeated": 500}, Status.NOTE),
        ({"repeated": 2_499}, Status.NOTE),
        ({"repeated": 2_500}, Status.WARN),
        ({"repeated": 3_999, "labelled": 5_000}, Status.NOTE),  # oversampled to balance classes
        ({"repeated": 4_000, "labelled": 5_000}, Status.WARN),
        ({"repeated": 3_999, "usual": True}, Status.NOTE),
        ({"repeated": 4_500, "even": True}, Status.NOTE),
        ({"repeated": 25, "rows": 31, "telling": 31}, Status.PASS),
        ({"telling": 0}, Status.SKIP),
    ],
)
def test_equal_rows(fields: dict[str, Any], status: Status) -> None:
    facts = msgspec.structs.replace(data(), repeats=Repeats(**{**LONG, **fields}))
    assert verdict("DAT008", facts).status is status


def test_short_rows_are_not_judged_and_counted() -> None:
    short = {"rows": 2_000, "short": 2_000, "short_repeated": 1_892}
    facts = msgspec.structs.replace(data(), repeats=Repeats(telling=0, **short))
    found = verdict("DAT008", facts)
    assert found.status is Status.SKIP
    assert "1,892 of 2,000 occurred before (95 %), not judged" in found.summary
    mixed = Repeats(rows=100, telling=40, short=60)
    found = verdict("DAT008", msgspec.structs.replace(data(), repeats=mixed))
    assert found.status is Status.PASS
    assert "100 rows compared, 60 are too short" in found.summary


def test_rows_that_differ_when_read_again_are_unknown() -> None:
    facts = msgspec.structs.replace(data(), repeats=Unknown(reason="random augmentation"))
    assert verdict("DAT008", facts).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, Status.PASS),
        ({"single": 32, "drawn": 0.1}, Status.WARN),
        ({"single": 32, "drawn": 0.1, "own_order": True}, Status.NOTE),
        ({"single": 32, "drawn": 30.0}, Status.PASS),
        ({"single": 32, "classes": 1, "drawn": 32.0}, Status.NOTE),
        ({"single": 32, "classes": 1, "class_is_trained": False}, Status.PASS),
        ({"single": 32, "classes": 1, "class_is_trained": True}, Status.WARN),
        ({"single": 32, "classes": 1, "named": True}, Status.WARN),
        ({"single": 2, "classes": 1, "named": True, "samples": 16}, Status.NOTE),
        ({"constant": 256}, Status.FAIL),
        ({"empty": 256}, Status.FAIL),
        ({"distinct": 1}, Status.FAIL),
        ({"empty": 3, "rows": (1, 2, 9)}, Status.WARN),
        ({"constant": 3, "rows": (1, 2, 9)}, Status.NOTE),  # blank images
        ({"constant": 1}, Status.PASS),
        ({"kinds": 2}, Status.NOTE),
    ],
)
def test_batches(fields: dict[str, Any], status: Status) -> None:
    facts = data(mixing=msgspec.structs.replace(MIXING, **fields))
    assert verdict("DAT009", facts).status is status


@pytest.mark.parametrize(("streamed", "fix"), [(True, "shuffle(buffer_size"), (False, None)])
def test_a_stream_is_shuffled_by_a_buffer(streamed: bool, fix: str | None) -> None:
    fields = {"single": 32, "drawn": 0.1, "streamed": streamed}
    found = verdict("DAT009", data(mixing=msgspec.structs.replace(MIXING, **fields)))
    assert fix in found.fix if fix and found.fix else found.fix is None


@pytest.mark.parametrize(
    ("split", "fields", "status"),
    [
        ({"rows": 64, "batches": 64}, {"samples": 64, "distinct": 1}, Status.NOTE),
        ({"rows": 64, "batches": 8}, {"samples": 64, "distinct": 1}, Status.FAIL),
        ({"rows": 256}, {"distinct": 4, "constant": 64}, Status.NOTE),
        ({"rows": 256}, {"distinct": 200, "constant": 64}, Status.WARN),
    ],
)
def test_an_endless_loader_may_give_few_samples_again(
    split: dict[str, Any], fields: dict[str, Any], status: Status
) -> None:
    facts = data(total=None, mixing=msgspec.structs.replace(MIXING, **fields), **split)
    assert verdict("DAT009", facts).status is status


IMAGES = Inputs(
    name="[0]", samples=256, shape=(8, 3, 224, 224), low=-2.1, high=2.6, first="Conv2d",
    stated="the model's pretrained_cfg", expected_low=-2.12, expected_high=2.64,
)  # fmt: skip
UNSTATED = {"stated": "", "expected_low": None, "expected_high": None}


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, Status.PASS),
        ({"low": 0.0, "high": 255.0, "whole": True}, Status.WARN),
        ({"low": 0.0, "high": 1.0}, Status.WARN),
        ({"low": -30.0, "high": 900.0}, Status.WARN),
        ({"shape": (8, 224, 224, 3)}, Status.WARN),
        ({"low": 0.0, "high": 255.0, "whole": True, **UNSTATED}, Status.WARN),
        ({"low": 0.0, "high": 255.0, "whole": True, "first": "", **UNSTATED}, Status.NOTE),
        ({"low": 0.0, "high": 1.0, **UNSTATED}, Status.PASS),
        ({"low": 0.0, "high": 0.4, "samples": 16}, Status.PASS),
    ],
)
def test_values_of_images(fields: dict[str, Any], status: Status) -> None:
    facts = data(inputs=msgspec.structs.replace(IMAGES, **fields))
    assert verdict("DAT010", facts).status is status


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"twins": 0}, Status.PASS),
        ({"twins": 64, "alone": 0}, Status.WARN),
        ({"twins": 64, "alone": 60}, Status.PASS),
        ({"twins": 64, "alone": None}, Status.UNKNOWN),
    ],
)
def test_samples_of_workers(fields: dict[str, Any], status: Status) -> None:
    facts = data(workers=Workers(workers=2, samples=64, **fields))
    assert verdict("DAT011", facts).status is status


MARKERS = Markers(
    documents=256, template=True, answers=256, prompt="<|assistant|>", marked=256, prompted=256
)


@pytest.mark.parametrize(
    ("code", "fields", "status"),
    [
        ("DAT014", {}, Status.PASS),
        ("DAT014", {"prompted": 0}, Status.WARN),
        ("DAT014", {"foreign": {"<|im_start|>": 256}}, Status.WARN),
        ("DAT014", {"split": {"<|im_start|>": 200}}, Status.WARN),
        ("DAT014", {"foreign": {"[INST]": 3}}, Status.NOTE),
        ("DAT014", {"prompted": 0, "marked": 0}, Status.NOTE),
        ("DAT014", {"bos": "<bos>", "without_bos": 256}, Status.WARN),
        ("DAT014", {"reopened": 256}, Status.WARN),
        ("DAT014", {"reopened": 90}, Status.PASS),
        ("DAT014", {"template": False}, Status.SKIP),
        ("DAT013", {"prompted": 0, "late": 256}, Status.WARN),
        ("DAT013", {"prompted": 0, "elsewhere": 256, "asking": 256}, Status.WARN),
        ("DAT014", {"prompted": 0, "elsewhere": 256, "asking": 256}, Status.SKIP),
        ("DAT013", {"prompted": 156, "elsewhere": 100, "asking": 100}, Status.PASS),
        ("DAT013", {"prompted": 0, "early": 256}, Status.PASS),
        ("DAT002", {"foreign": {"<|im_start|>": 256}}, Status.SKIP),
    ],
)
def test_prompts_and_markers(code: str, fields: dict[str, Any], status: Status) -> None:
    facts = data(markers=msgspec.structs.replace(MARKERS, **fields))
    assert verdict(code, facts).status is status


def test_a_prompt_that_is_trained_in_place_of_the_answer() -> None:
    assert verdict("DAT013", data(labels={"inverted": 200})).status is Status.WARN


def test_a_row_that_is_not_rendered_is_named_by_its_number() -> None:
    rendered = Rendered(rows=99, failed=1, errors={"TemplateError": 1}, failed_rows=(17,))
    found = verdict("DAT014", data(rendered=rendered))
    assert found.status is Status.WARN
    assert "row 17" in found.summary


@pytest.mark.parametrize(
    ("offset", "status"),
    [
        (Offset(positions=16, shifts={"1": 16}), Status.PASS),
        (Offset(positions=16, shifts={"1": 16}, crossing=0), Status.PASS),
        (Offset(positions=16, shifts={"1": 16}, crossing=8), Status.WARN),
        (Offset(positions=16, shifts={"-3": 2}, later=16), Status.FAIL),
        (Unknown(reason="no embedding"), Status.UNKNOWN),
        (None, Status.SKIP),
    ],
)
def test_what_a_token_sees(offset: Any, status: Status) -> None:
    assert verdict("DAT015", data(offset)).status is status


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, Status.PASS),
        ({"equal": 100}, Status.FAIL),
        ({"equal": 6, "rows": (4,)}, Status.WARN),
        ({"scored": 100, "swapped": 97}, Status.WARN),
        ({"scored": 100, "swapped": 85}, Status.PASS),
        ({"scored": 100, "swapped": 40}, Status.PASS),
    ],
)
def test_preference_pairs(fields: dict[str, Any], status: Status) -> None:
    assert verdict("DAT016", data(pairs=Pairs(pairs=100, **fields))).status is status


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, ""),
        ({"empty": ("a-01.jsonl",)}, "1 empty"),
        ({"equal": (("a-01.jsonl", "a-02.jsonl"),)}, "equal"),
        ({"missing": ("3 of 12",)}, "missing"),
        ({"short": ("a-02.jsonl",)}, "shorter"),
    ],
)
def test_files_of_rows(fields: dict[str, Any], word: str) -> None:
    facts = msgspec.structs.replace(data(), shards=Shards(files=12, **fields))
    found = verdict("DAT017", facts)
    assert found.status is (Status.WARN if word else Status.PASS)
    assert word in found.summary
    again = bool(word) and word != "equal"
    assert ("Download" in (found.fix or "")) is again
    assert ("Make the split anew" in (found.fix or "")) is (word == "equal")


PACE = Pace(batches=32, seconds=0.05, halves=(0.05, 0.05), delayed=0.02, workers=4)


@pytest.mark.parametrize(
    ("pace", "step", "status", "word"),
    [
        ({}, 0.04, Status.PASS, "20%"),
        ({}, 0.02, Status.WARN, "60%"),
        ({"workers": 0}, 0.06, Status.WARN, "num_workers=0 on 6 cores"),
        ({"seconds": 0.009, "workers": 0}, 0.001, Status.PASS, "at most 30%"),
        ({"halves": (0.05, 0.08)}, 0.02, Status.UNKNOWN, "not stable"),
        ({"delayed": 0.5}, 0.02, Status.UNKNOWN, "waited 50%"),
        ({"delayed": None}, 0.02, Status.UNKNOWN, "not known"),
        (Unknown(reason="only 3 batches came in 6 s"), 0.02, Status.UNKNOWN, "only 3"),
        (None, 0.02, Status.SKIP, "loader"),
        ({}, None, Status.SKIP, "no step"),
    ],
)
def test_the_loader_against_the_step(pace: Any, step: Any, status: Status, word: str) -> None:
    record = msgspec.structs.replace(PACE, **pace) if isinstance(pace, dict) else pace
    smoke = Smoke(device="cuda:0", precision="bf16", recipe="amp", lr=0.1, stages=())
    own = OwnModel(description="own.py:make", built=Ended(how="ok"), smoke=smoke,
                   trend=Trend(step_seconds=step))  # fmt: skip
    facts = data(pace=record)
    found = CHECKS["DAT012"].judge(data=facts, own=own, host=HOST)
    assert found.status is status
    assert word in found.summary
    on_cpu = msgspec.structs.replace(own, smoke=msgspec.structs.replace(smoke, device="cpu"))
    assert CHECKS["DAT012"].judge(data=facts, own=on_cpu, host=HOST).status is Status.SKIP


MAPS = {"maps": 64, "values": 8, "flat": 0.9, "borders": 9000, "between": 3000, "kinds": 20}


@pytest.mark.parametrize(
    ("maps", "status"),
    [
        ({}, Status.WARN),
        ({"maps": 8}, Status.NOTE),
        ({"values": 200}, Status.NOTE),
        ({"between": 300}, Status.PASS),
        ({"kinds": 2}, Status.PASS),  # the outline of a class is a class
        ({"flat": 0.4}, Status.PASS),  # an image
        ({"borders": 100, "between": 100}, Status.PASS),
        ({"levels": 2}, Status.WARN),
        ({"levels": 4, "as_stored": True}, Status.NOTE),
    ],
)
def test_label_maps(maps: dict[str, Any], status: Status) -> None:
    assert verdict("DAT020", data(maps=LabelMaps(**MAPS | maps))).status is status


CUT = Cut(column="output", length=400, rows=60, of=240)
MISSING = Sentinel(column="wind", value=-999.0, rows=9, of=240)
LARGEST = Sentinel(column="wind", value=999.0, rows=9, of=240)
FILLED = Leak(column="left_on", label="churned", rows=240, filled=60)
SPELLED = Spellings(column="mood", values=7, classes=4, minor=30, pairs=((0, 6),))
SHORT = Spellings(column="mood", values=7, classes=2, minor=30, short=2, pairs=((0, 6),))


@pytest.mark.parametrize(
    ("texts", "status", "word"),
    [
        ({"answers": 240, "empty": 89, "empty_rows": (0, 2)}, Status.WARN, "89 of 240 answers"),
        ({"answers": 240, "empty": 3}, Status.PASS, "3 of 240"),
        ({"answers": 9, "empty": 2}, Status.NOTE, "9 were read"),
        ({"answers": 9, "empty": 3}, Status.WARN, "3 of 9 answers"),
        ({"garbled": 240, "garbled_rows": (0,)}, Status.WARN, "another encoding"),
        ({"garbled": 2}, Status.PASS, "no such fault is frequent"),
        ({"replaced": 240, "replaced_rows": (0,)}, Status.WARN, "U+FFFD"),
        ({"replaced": 5, "replaced_rows": (0,)}, Status.NOTE, "U+FFFD"),
        ({"replaced": 1}, Status.PASS, "no such fault is frequent"),
        ({"replaced_beside": 240, "replaced_beside_rows": (0,)}, Status.NOTE, "a prompt"),
        ({"spellings": (SPELLED,)}, Status.WARN, "row 0 and row 6"),
        ({"spellings": (SPELLED,)}, Status.WARN, "by case or space: row"),
        ({"spellings": (SHORT,)}, Status.WARN, "by case, space or their beginning"),
        ({"rows": 20, "spellings": (SPELLED,)}, Status.PASS, "no such fault is frequent"),
        ({"chats": 240, "asked": 40, "asked_rows": (1,)}, Status.WARN, "row 1"),
        ({"chats": 240, "asked": 240}, Status.NOTE, "prompts without answers"),
        ({"chats": 240, "asked": 2}, Status.PASS, "no such fault is frequent"),
        ({"documents": 240, "pages": 12, "page_rows": (3,)}, Status.WARN, "12 of 240 documents"),
        ({"documents": 240, "pages": 2}, Status.PASS, "no such fault is frequent"),
        ({"leaks": (FILLED,)}, Status.WARN, "that alone says their churned"),
        ({"cuts": (CUT,)}, Status.WARN, "60 of 240 texts of output end at 400 characters"),
        ({"sentinels": (MISSING,)}, Status.WARN, "9 of 240 values of wind are -999"),
        ({"sentinels": (LARGEST,)}, Status.NOTE, "9 of 240 values of wind are 999"),
        ({}, Status.PASS, "no such fault is frequent"),
    ],
)
def test_rows_as_they_are_written(texts: dict[str, Any], status: Status, word: str) -> None:
    found = verdict("DAT021", data(texts=RowTexts(**{"rows": 240} | texts)))
    assert (found.status, word in found.summary) == (status, True)


@pytest.mark.parametrize(
    ("again", "status", "word"),
    [
        ("twice: ImageNet's", Status.WARN, "normalized twice by ImageNet"),
        ("bytes: ImageNet's", Status.WARN, "255 times"),
        ("", Status.PASS, ""),
    ],
)
def test_normalizations_that_do_not_fit(again: str, status: Status, word: str) -> None:
    images = Inputs(name="x", samples=64, shape=(16, 3, 8, 8), low=-11.0, high=7.0, again=again)
    found = verdict("DAT010", data(inputs=images))
    assert (found.status, word in found.summary) == (status, True)


@pytest.mark.parametrize(
    ("boxes", "status", "word"),
    [
        ({"outside": 90, "swapped": 90}, Status.WARN, "its other side"),
        ({"outside": 90, "swapped": 10}, Status.WARN, "leave their image"),
        ({"flat": 9}, Status.WARN, "no width or no height"),
        ({"outside": 4, "swapped": 4, "flat": 1}, Status.PASS, "agree"),
    ],
)
def test_boxes_of_images(boxes: dict[str, Any], status: Status, word: str) -> None:
    record = data(boxes=Boxes(boxes=240, **boxes), agreement=Agreement(rows=256))
    found = verdict("DAT022", record)
    assert (found.status, word in found.summary) == (status, True)


@pytest.mark.parametrize(
    ("padding", "status"),
    [
        ({"trained": 800}, Status.WARN),
        ({"trained": 800, "loss_known": False}, Status.NOTE),
        ({"trained": 100}, Status.PASS),
    ],
)
def test_padding_of_tags(padding: dict[str, Any], status: Status) -> None:
    record = data(padding=padding, labels={"objective": "other tokens"})
    assert verdict("DAT005", record).status is status


def test_calls_of_tools_that_a_template_refuses() -> None:
    rendered = Rendered(rows=99, calls=40)
    assert verdict("DAT014", data(rendered=rendered)).status is Status.NOTE


def test_few_rows_of_a_whole_split_are_named_as_such() -> None:
    overlap = Overlap(train=90, rows=8, telling=8, shared=2, pairs=((0, 1),))
    facts = data()
    other = Split(name="eval", kind="loader", rows=8, total=8)
    whole = msgspec.structs.replace(facts, splits=(*facts.splits, other), overlap=overlap)
    assert "eval has 8 rows in all" in verdict("DAT007", whole).summary


@pytest.mark.parametrize(("unscaled", "status"), [("CLIP's", Status.WARN), ("", Status.PASS)])
def test_normalized_bytes(unscaled: str, status: Status) -> None:
    images = Inputs(name="x", samples=64, shape=(16, 3, 8, 8), low=-2.0, high=900.0)
    images = msgspec.structs.replace(images, unscaled=unscaled)
    assert verdict("DAT010", data(inputs=images)).status is status


@pytest.mark.parametrize(
    ("seeds", "status", "word"),
    [
        ({"equal_workers": True, "equal_epochs": True}, Status.WARN, "every epoch"),
        ({"equal_workers": True, "equal_epochs": False}, Status.WARN, "one seed"),
        ({"equal_workers": False, "equal_epochs": True}, Status.NOTE, "again"),
        ({"equal_workers": False, "equal_epochs": True, "persistent": True}, Status.SKIP, ""),
        ({"equal_workers": False, "equal_epochs": False}, Status.SKIP, ""),
    ],
)
def test_seeds_of_workers(seeds: dict[str, Any], status: Status, word: str) -> None:
    found = verdict("DAT011", data(seeds=Seeds(workers=2, **seeds)))
    assert found.status is status
    assert word in found.summary


IDS = {"entries": 420, "highest": 421, "beyond": 3, "rows": (1, 2, 4)}


@pytest.mark.parametrize(
    ("fields", "status", "word"),
    [
        ({}, Status.PASS, ""),
        ({"indices": (Indices(kind="ids", table="the model's embedding", **IDS),)},
         Status.FAIL, "0 to 419"),
        ({"indices": (Indices(kind="classes", table="the model's classes", **IDS),)},
         Status.FAIL, "classes go"),
        ({"indices": (Indices(kind="ids", table="the model's embedding", **IDS),), "negative": 1,
          "lowest_id": -100}, Status.FAIL, "down to -100"),
        ({"indices": (Indices(kind="ids", table="the tokenizer", **IDS),)}, Status.NOTE, "ids"),
        ({"blank": 0, "targets": 90, "blanks": 80}, Status.WARN, "blank"),
        ({"blank": 0, "targets": 900, "blanks": 10}, Status.WARN, "blank"),
        ({"blank": 0, "targets": 900, "blanks": 8}, Status.PASS, ""),
        ({"blank": 0, "targets": 90, "empty": 9}, Status.WARN, "no letter"),
        ({"blank": 0, "targets": 90, "empty": 1}, Status.PASS, ""),
        ({"blank": 0, "targets": 90, "longer": 1}, Status.WARN, "infinite"),
        ({"indices": (Indices(kind="numbers", table="the model's table user", lowest=1, **IDS),)},
         Status.FAIL, "from 1 to 421"),
        ({"turned": 9}, Status.WARN, "turn or move"),
        ({"turned": 4}, Status.PASS, ""),
        ({"turned": 90, "followed": 1}, Status.PASS, ""),
        ({"columns": (Column(name="x", column=3, rows=64),)}, Status.WARN, "column 3"),
        ({"columns": (Column(name="x", column=3, rows=63),)}, Status.PASS, ""),
        ({"columns": (Column(name="x", column=3, rows=64, with_columns=(5,)),)},
         Status.WARN, "parts"),
        ({"tokens": 900, "unknown": 450}, Status.WARN, "another vocabulary"),
        ({"nonfinite": "x", "nonfinite_count": 3}, Status.WARN, "NaN"),
        ({"nonfinite": "x", "nonfinite_count": 1}, Status.WARN, "0.4 %"),
        ({"tokens": 900, "unknown": 180}, Status.NOTE, "unknown words"),
        ({"tokens": 900, "unknown": 179}, Status.PASS, ""),
    ],
)  # fmt: skip
def test_fields_that_do_not_agree(fields: dict[str, Any], status: Status, word: str) -> None:
    found = verdict("DAT022", data(agreement=Agreement(rows=256, **fields)))
    assert found.status is status
    assert word in found.summary


def test_other_numbers_in_eval_hide_no_class_beyond_the_model() -> None:
    beyond = Indices(kind="classes", table="the model's classes", **IDS)
    facts = data(agreement=Agreement(rows=256, indices=(beyond,)))
    moved = Numbering(name="class_to_idx", shared=3, moved=1, example="cat", numbers=(0, 1))
    found = verdict("DAT022", msgspec.structs.replace(facts, numbering=moved))
    assert found.status is Status.FAIL
    assert "cat is 0 and 1" in found.summary


def test_an_inverted_mask_has_one_cause() -> None:
    facts = data(labels={"inverted": 256}, stops={"stopped": 0, "masked_ends": 256})
    assert verdict("DAT002", facts).status is Status.SKIP
    assert verdict("DAT013", facts).status is Status.WARN


@pytest.mark.parametrize(("drawn", "word"), [(True, "np.random.default_rng"), (False, "islice")])
def test_the_remedy_for_equal_samples_is_that_of_their_cause(drawn: bool, word: str) -> None:
    twins = Workers(workers=2, samples=64, twins=64, alone=0, drawn=drawn)
    found = verdict("DAT011", data(workers=twins))
    assert found.status is Status.WARN
    assert word in (found.fix or CHECKS["DAT011"].fix)


def test_a_training_split_that_was_not_read_is_unknown_beside_an_evaluation() -> None:
    (train,) = data().splits
    of_eval = msgspec.structs.replace(train, name="eval")
    unread = msgspec.structs.replace(train, rows=0)
    for splits, status in (((of_eval,), Status.SKIP), ((unread, of_eval), Status.UNKNOWN)):
        facts = msgspec.structs.replace(data(), splits=splits, repeats=None)
        assert verdict("DAT008", facts).status is status
        assert verdict("DAT009", facts).status is status
