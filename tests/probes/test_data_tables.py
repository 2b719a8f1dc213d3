"""Tables by what separates their columns, pages in place of documents, chats without an end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from doctor.probes.training_side.data import (
    columns,
    files,
    pages,
    pairs,
    row_texts,
    tables,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "text", "row"),
    [
        ("a.csv", "city;price;size\nRome;1,5;2,25\nOslo;2,5;3\n", {"price": "1,5"}),
        ("a.csv", "city\tprice\nRome, IT\t1,5\nOslo\t2\n", {"city": "Rome, IT"}),
        ("a.csv", "city|price\nRome, IT|1,5\n", {"price": "1,5"}),
        ("a.tsv", "city,price\nRome,1\n", {"price": "1"}),
        ("a.csv", "name;price,EUR;x\na;1,5;2\nb;2,5;3\n", {"price,EUR": "1,5"}),
        ("a.csv", 'id,"a|b|c"\n1,"x|y|z"\n', {"a|b|c": "x|y|z"}),
        ("a.csv", 'id,text\n1,"one; two\nthree; four"\n', {"text": "one; two\nthree; four"}),
        ("a.csv", "text\none, two\n", None),
        ("a.csv", "text\none\n", {"text": "one"}),
        ("a.csv", "\ufeffid,y\n1,2\n", {"id": "1"}),
    ],
)
def test_the_delimiter_is_that_of_the_header(
    tmp_path: Path, name: str, text: str, row: Any
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    rows = files.Rows([str(tmp_path / name)])
    found = list(rows.again())
    if row is None:
        assert rows.broken is not None
        return
    assert rows.broken is None
    assert row.items() <= found[0].items()


def test_a_row_of_another_width_is_still_broken(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1;2\n3;4;5\n", encoding="utf-8")
    rows = files.Rows([str(tmp_path / "a.csv")])
    assert len(list(rows.again())) == 1
    assert rows.broken is not None
    assert tables.delimiter_of("", ",", True) == ","


@pytest.mark.parametrize(
    ("text", "number"),
    [("1,5", 1.5), ("-1.234,5", -1234.5), ("1.5", 1.5), ("a,5", None), ("1,2,3", None)],
)
def test_a_decimal_comma_is_a_number(text: str, number: float | None) -> None:
    assert columns.number_of(text) == number


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("Access denied\nYou don't have permission to access this server.", True),
        ("Please enable JavaScript to view this site.", True),
        ("404 Not Found\n\nnginx", True),
        ("502 Bad Gateway", True),
        ("Just a moment...\nChecking your browser before you visit", True),
        ("The museum opens at nine, and closes at five.", False),
        ("The river was not found on any map before the survey of 1870.", False),
        ("How a server answers: " + "the header has a status. " * 80 + "404 Not Found", False),
    ],
)
def test_pages_of_errors_are_told_from_documents(text: str, page: bool) -> None:
    assert pages.is_page([text]) is page


def test_chats_that_end_with_a_question_and_pages_are_counted() -> None:
    asked = {"messages": [{"role": "user", "content": "a"}]}
    whole = {"messages": [*asked["messages"], {"role": "assistant", "content": "b"}]}
    prompt = {**asked, "solution": "4"}
    denied = {"text": "Access denied", "url": "a"}
    counts = row_texts.RowTexts()
    for number, row in enumerate([asked, whole, prompt, denied, {**denied, "label": 1}]):
        counts.add(row, number)
    record = counts.record()
    assert record is not None
    assert (record["chats"], record["asked"], record["asked_rows"]) == (2, 1, [0])
    assert (record["documents"], record["pages"], record["page_rows"]) == (1, 1, [3])


def leaking(filled: Any, label: str = "churned", rows: int = 96) -> list[str]:
    counts = row_texts.RowTexts()
    for number in range(rows):
        churned = number % 3 == 0
        left = "2024" if filled(number, churned) else ""
        row = {"age": str(20 + number % 50), "left_on": left, label: str(int(churned))}
        counts.add(row, number)
    record = counts.record()
    assert record is not None
    return [each["column"] for each in record["leaks"]]


def test_a_column_that_is_filled_in_for_a_class_alone() -> None:
    for label in ("churned", "target"):
        assert leaking(lambda number, churned: churned, label) == ["left_on"]
    assert leaking(lambda number, churned: not churned) == ["left_on"]
    assert leaking(lambda number, churned: churned, rows=30) == []
    assert leaking(lambda number, churned: churned and number != 3) == []
    assert leaking(lambda number, churned: number % 2) == []
    assert leaking(lambda number, churned: True) == []
    assert leaking(lambda number, churned: False) == []


def test_what_a_query_shall_find_and_not_find_differs() -> None:
    counts = pairs.Pairs()
    for number in range(6):
        other = "b" if number else "a"
        counts.add({"query": "q", "positive": "a", "negative": other}, number)
    record = counts.record()
    assert record is not None
    assert (record["pairs"], record["equal"], record["rows"]) == (6, 1, [0])
