"""What is counted of label maps, images and rows as they are written."""

from __future__ import annotations

from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from doctor.probes.training_side.data import (  # noqa: E402
    documents,
    files,
    inputs,
    label_maps,
    row_ends,
    row_overlap,
    row_texts,
    rows,
    targets,
    vocabulary,
)

pytestmark = pytest.mark.slow


def discs(classes: int, outline: bool = False) -> Any:
    """32 label maps of overlapping discs, 96 x 96."""
    generator = torch.Generator().manual_seed(0)
    at = torch.arange(96)
    made = torch.zeros(32, 1, 96, 96)
    for each in made[:, 0]:
        for _ in range(12):
            y, x = torch.randint(0, 96, (2,), generator=generator).tolist()
            radius = int(torch.randint(4, 24, (1,), generator=generator))
            distance = (at[:, None] - y) ** 2 + (at - x) ** 2
            each[distance < radius**2] = int(torch.randint(0, classes, (1,), generator=generator))
            if outline:
                each[distance < radius**2] = 2
                each[(distance >= (radius - 1) ** 2) & (distance < radius**2)] = 1
    return made


def ratio(maps: Any, size: int, mode: str) -> float:
    counts = label_maps.LabelMaps()
    sized = torch.nn.functional.interpolate(maps, size=(size, size), mode=mode)
    counts.add({"labels": sized[:, 0].round().long()})
    record = counts.record()
    assert record is not None
    return record["between"] / record["borders"] if record["kinds"] >= 6 else 0.0


@pytest.mark.parametrize("size", [48, 72, 128, 256])
@pytest.mark.parametrize("classes", [5, 21, 150])
def test_interpolated_classes_are_told_from_drawn_ones(classes: int, size: int) -> None:
    drawn = discs(classes)
    assert ratio(drawn, size, "nearest") < 0.05
    assert ratio(drawn, size, "bilinear") > 0.18


def test_the_outline_of_a_class_is_a_class() -> None:
    assert ratio(discs(3, outline=True), 96, "nearest") == 0.0


def range_of(images: Any) -> str:
    counts = inputs.Inputs(None, "")
    counts.add({"pixel_values": images})
    record = counts.record()
    assert record is not None
    return str(record["unscaled"])


MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


@pytest.mark.parametrize(
    ("image", "named"),
    [
        (lambda raw: (raw - MEAN) / STD, "ImageNet"),
        (lambda raw: (raw - 0.5) / 0.5, "of 0.5"),
        (lambda raw: (raw / 255 - MEAN) / STD, ""),
        (lambda raw: raw - 255 * MEAN, ""),  # as Caffe's
        (lambda raw: raw, ""),
        (lambda raw: raw * 257, ""),  # 16 bits
        (lambda raw: torch.randn_like(raw) * 400 - 200, ""),  # Hounsfield units
        (lambda raw: raw / 255 * 80 + 221, ""),  # fields in physical units
    ],
)
def test_normalized_bytes_are_told(image: Any, named: str) -> None:
    raw = torch.randint(0, 256, (32, 3, 16, 16), generator=torch.Generator().manual_seed(0))
    found = range_of(image(raw.float() + 0.0))
    assert (named in found) if named else found == ""


def counted(*each: Any) -> dict[str, Any]:
    texts = row_texts.RowTexts()
    for number, row in enumerate(each):
        texts.add(row, number)
    record = texts.record()
    assert record is not None
    return record


def chat(content: Any, **fields: Any) -> dict[str, Any]:
    answer = {"role": "assistant", "content": content, **fields}
    return {"messages": [{"role": "user", "content": "When?"}, answer]}


@pytest.mark.parametrize(
    ("row", "empty"),
    [
        (chat(""), 1),
        (chat(" \n"), 1),
        (chat(None), 1),
        ({"prompt": "When?", "completion": "  "}, 1),
        ({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": ""}]}, 1),
        (chat(None, tool_calls=[{"id": "0"}]), 0),
        (chat("At nine."), 0),
        (chat([{"type": "text", "text": "At nine."}]), 0),
        ({"instruction": "When?", "input": "", "output": "At nine."}, 0),
        ({"text": ""}, 0),
    ],
)
def test_empty_answers(row: dict[str, Any], empty: int) -> None:
    assert counted(row)["empty"] == empty


@pytest.mark.parametrize(
    ("text", "garbled"),
    [
        ("GrÃ¼ne ZÃ¼ge", 1),
        ("itâ€™s", 1),
        ("Grüne Züge", 0),
        ("São Paulo, Ã la carte", 0),
        ("naïve café", 0),
        ("日本語", 0),
        ("plain", 0),
    ],
)
def test_garbled_text(text: str, garbled: int) -> None:
    assert counted({"text": text})["garbled"] == garbled


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("the caf\ufffd by the bridge", 1),
        ("\ufffd\ufffd\ufffd", 1),
        ("a decoder writes \ufffd where a byte is wrong", 0),
        ("U+FFFD (\ufffd), the replacement character", 0),
        ("Grüne Züge", 0),
    ],
)
def test_letters_that_were_lost(text: str, replaced: int) -> None:
    assert counted({"text": text})["replaced"] == replaced


@pytest.mark.parametrize("column", ["prompt", "preview"])
def test_letters_that_were_lost_beside_what_is_learned(column: str) -> None:
    found = counted({column: "the caf\ufffd", "completion": "the café"})
    assert (found["replaced"], found["replaced_beside"]) == (0, 1)
    found = counted({column: "the café", "completion": "the caf\ufffd"})
    assert (found["replaced"], found["replaced_beside"]) == (1, 0)


@pytest.mark.parametrize(
    ("row", "answers", "empty"),
    [
        ({"q": "When does it open?", "a": "At nine."}, 1, 0),
        ({"q": "When does it open?", "a": ""}, 1, 1),
        ({"a": "", "b": "a table's columns"}, 0, 0),
        ({"q": 0.5, "a": ""}, 0, 0),
    ],
)
def test_short_names_of_question_and_answer(row: dict[str, Any], answers: int, empty: int) -> None:
    found = counted(row)
    assert (found["answers"], found["empty"]) == (answers, empty)


TAGGED = "The DT O\nlamp NN B-THING\nburns VBZ O\n. . O\n\n" * 12


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (TAGGED, "The DT O\nlamp NN B-THING\nburns VBZ O\n. . O"),
        (TAGGED.replace("\n\n", "\n"), "The DT O"),  # no sentences
        ("one two three\n\n" * 40, "one two three"),  # a paragraph a line
        ("the lamp burns\nall night long here\nand nobody\n\n" * 20, "the lamp burns"),
        ("lamp\nbench\nfuse\n\n" * 20, "lamp"),
    ],
)
def test_the_rows_of_tokens_with_tags_are_sentences(tmp_path: Any, text: str, first: str) -> None:
    path = tmp_path / "rows.txt"
    path.write_text(text)
    assert next(iter(files.Rows([str(path)])))["text"] == first


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (["positive", "Positive", "positive ", "neg"], True),
        (["A", "a", "B", "b"], False),  # alleles
        (["positive", "negative", "neutral", "mixed"], False),
    ],
)
def test_spellings_of_a_class(values: list[str], named: bool) -> None:
    made = [{"text": f"row {n}", "mood": values[n % 4]} for n in range(64)]
    assert bool(counted(*made)["spellings"]) is named


@pytest.mark.parametrize("name", ["sentiment", "label"])
@pytest.mark.parametrize(
    ("values", "classes", "short"),
    [
        (["positive", "Positive", "pos", "negative", "negative ", "neg"], 2, 2),
        (["positive", "Positive", "negative", "negative "], 2, 0),
        (["York", "york", "Yorkshire", "Leeds"], 3, 0),  # one beginning is by chance
        (["art", "artist", "man", "manager"], 0, 0),
        (["north", "south", "northeast", "southeast"], 0, 0),
        (["pos", "positive", "neg", "negative"], 0, 0),
    ],
)
def test_classes_do_not_depend_on_the_name_of_a_column(
    name: str, values: list[str], classes: int, short: int
) -> None:
    made = [{"text": f"row {n}", name: values[n % len(values)]} for n in range(72)]
    found = counted(*made)["spellings"]
    assert [(each["classes"], each["short"]) for each in found] == [(classes, short)] * bool(
        classes
    )


def stops(*ids: list[int], masked: bool = False) -> Any:
    made = []
    for row, each in enumerate(ids):
        values = torch.tensor(each)
        label = torch.where(values == 2, -100, values) if masked else values.clone()
        made.append(documents.Document(row, values, label, values[:0]))
    known = vocabulary.Vocabulary(bos=1, eos=2, stops=(2,), source="the tokenizer's eos_token")
    return row_ends.stops(made, known, [])


def test_stops_of_documents_that_are_trained_as_a_whole() -> None:
    ended = [[5, 6, 7, 8, 9, 2], [5, 6, 7, 8, 2]]
    assert stops(*ended, masked=True)["untrained"] == 2
    assert stops(*ended)["untrained"] == 0
    joined = [[5, 6, 7, 8, 9, 5], [6, 7, 8, 9, 5, 6]]
    assert stops(*joined)["unended"] == 2
    assert stops(*joined, [5, 6, 7, 2, 8, 9])["unended"] == 2
    assert stops(*joined, [5, 6, 7, 8, 9])["unended"] == 0


@pytest.mark.parametrize(("distinct", "shared"), [(True, 16), (False, 0)])
def test_short_rows_tell_of_a_leak_where_no_two_are_equal(distinct: bool, shared: int) -> None:
    values = torch.rand(80, 3, generator=torch.Generator().manual_seed(0))
    train = values if distinct else torch.arange(240.0).reshape(80, 3) % 4
    sources = [targets.Source(name, "dataset", list(part), len(part))
               for name, part in (("train", train), ("eval", train[:16]))]  # fmt: skip
    record, _ = row_overlap.overlap(rows.read(sources[0], 5.0), sources[1], 5.0)
    assert record["shared"] == shared


def prose(rows: int, limit: int | None = None) -> list[dict[str, str]]:
    words = [
        "the",
        "pump",
        "runs",
        "hot",
        "as",
        "its",
        "filter",
        "is",
        "blocked",
        "and",
        "nobody",
        "looks",
        "at",
        "the",
        "gauge",
    ]
    made = []
    for number in range(rows):
        length = 30 + (7 * number) % 90
        text = " ".join(words[(number + n) % len(words)] for n in range(length)) + "."
        made.append({"instruction": f"why, case {number}?", "output": text[:limit]})
    return made


def test_answers_that_are_cut_at_one_length() -> None:
    rows = prose(200, 400)
    (cut,) = counted(*rows)["cuts"]
    assert (cut["column"], cut["length"], cut["of"]) == ("output", 400, 200)
    said = [{"role": "assistant", "content": row["output"]} for row in rows]
    chats = [{"messages": [{"role": "user", "content": "hi"}, each]} for each in said]
    assert [each["length"] for each in counted(*chats)["cuts"]] == [400]


@pytest.mark.parametrize(
    "rows",
    [
        prose(200),
        [{"instruction": f"hash {n}", "output": f"{n:064x}"} for n in range(200)],
        [{"instruction": f"{n}", "output": ("x" * (n % 40)) + "y" * 40} for n in range(200)],
        [{"instruction": f"{n}", "output": row["output"][:280].rstrip() + "."} for n, row in
         enumerate(prose(200))],
    ],
)  # fmt: skip
def test_answers_of_their_own_length(rows: list[dict[str, Any]]) -> None:
    assert not counted(*rows)["cuts"]


@pytest.mark.parametrize("code", [-999, "-9999.0", 99999.0, -32768])
def test_a_number_that_stands_for_missing(code: Any) -> None:
    rows = [{"id": f"r{n}", "t": code if n % 20 == 3 else 15 + n % 11} for n in range(200)]
    (found,) = counted(*rows)["sentinels"]
    assert (found["column"], found["value"], found["rows"]) == ("t", float(code), 10)


@pytest.mark.parametrize("blank", [None, "", "NA", "nan", float("nan")])
def test_a_column_has_blanks_beside_the_number_for_missing(blank: Any) -> None:
    values = [blank if n % 20 == 7 else -999 if n % 20 == 3 else 15 + n % 11 for n in range(200)]
    (found,) = counted(*({"t": value} for value in values))["sentinels"]
    assert (found["value"], found["rows"], found["of"]) == (-999.0, 10, 190)


def test_arrays_in_a_row_hide_nothing_of_its_other_columns() -> None:
    spelled = ("good", "bad", "Good", "BAD ")
    rows = [
        {"x": np.arange(3), "t": -999 if n % 20 == 3 else 15 + n % 11, "mood": spelled[n % 4]}
        for n in range(200)
    ]
    record = counted(*rows)
    assert [each["column"] for each in record["sentinels"]] == ["t"]
    assert [each["column"] for each in record["spellings"]] == ["mood"]


@pytest.mark.parametrize(
    "values",
    [
        [n % 1200 for n in range(4000)],  # 999 among its neighbours
        [15 + n % 11 for n in range(200)],
        [-999 if n == 7 else 15 + n % 11 for n in range(200)],  # once: an outlier
        ["-999" if n % 20 == 3 else f"code {n}" for n in range(200)],
        [n % 2 for n in range(200)],
    ],
)
def test_numbers_that_are_measured(values: list[Any]) -> None:
    assert not counted(*({"t": value} for value in values))["sentinels"]


def broken(maps: Any) -> str:
    counts = label_maps.LabelMaps()
    counts.add({"pixel_values": torch.zeros(len(maps), 3, 8, 8), "labels": maps})
    record = counts.record()
    return record["broken"] if record is not None and "broken" in record else ""


def test_classes_that_are_fractions() -> None:
    drawn = discs(12)
    sized = torch.nn.functional.interpolate(drawn, size=(150, 150), mode="bilinear")
    ignored = torch.where(drawn == 5, torch.tensor(255.0), drawn)
    assert broken(drawn / 255) == "divided"
    assert broken(ignored[:, 0] / 255) == "divided"
    assert broken(sized) == "interpolated"
    assert broken(drawn) == broken((drawn > 3).float()) == ""


def test_maps_of_numbers_that_are_no_classes() -> None:
    soft = torch.nn.functional.interpolate((discs(5) > 2).float(), size=(150, 150), mode="bilinear")
    depth = torch.nn.functional.interpolate(torch.rand(8, 1, 6, 6) * 40, size=(96, 96))
    alpha = torch.randint(0, 256, (8, 1, 64, 64)) / 255
    assert [broken(each) for each in (soft, depth, alpha, torch.rand(8, 32, 32))] == [""] * 4


@pytest.mark.parametrize("mean", [None, *inputs.NORMALIZATIONS])
def test_images_that_were_divided_twice(mean: str | None) -> None:
    images = torch.randint(0, 256, (32, 3, 16, 16)) / 255
    spread = inputs.NORMALIZATIONS[mean] if mean else ((0.0,) * 3, (1.0,) * 3)
    at, std = (torch.tensor(each)[:, None, None] for each in spread)
    for value, expected in ((images / 255, True), (images, False), (images * 0.1, False)):
        counts = inputs.Inputs(None, "")
        counts.add({"pixel_values": (value - at) / std, "labels": torch.arange(32)})
        record = counts.record()
        assert record is not None
        assert bool(record["twice"]) is expected
