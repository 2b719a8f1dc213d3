"""Rows of files that contradict themselves, and sound neighbours of each."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from data_targets import verdicts

from doctor.judge.check import Status

LOUD = (Status.WARN, Status.FAIL)
WORDS = "river paper train window green bread letter museum boat evening garden table summer"
DRAW = random.Random(0)
MANY = 160
SAME = "The same text with a class of its own in each of these rows."


def said(words: int = 12) -> str:
    return " ".join(DRAW.choice(WORDS.split()) for _ in range(words)).capitalize() + "."


def chat(*messages: tuple[str, str]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in messages]}


def asked(role: str = "assistant", question: str = "", answer: str = "") -> dict[str, Any]:
    return chat(("user", question or said()), (role, answer or said(20)))


def pair(prompt: str, **sides: str) -> dict[str, str]:
    return {"prompt": prompt, "chosen": said(), "rejected": said(), **sides}


def both(one: str, other: str) -> dict[str, Any]:
    """Chosen and rejected answers with their questions."""
    sides = {"chosen": one, "rejected": other}
    return {name: asked(question=each)["messages"] for name, each in sides.items()}


def found(query: str, positive: str, *negatives: str) -> dict[str, Any]:
    return {"query": query, "pos": [positive], "neg": [*negatives, said()]}


def cell(column: str, value: str) -> dict[str, str]:
    return {"age": str(DRAW.randint(1, 90)), column: value, "label": str(DRAW.randint(0, 1))}


def price(comma: bool) -> str:
    return f"{DRAW.random() * 50 + 1:.2f}".replace(".", "," if comma else ".")


def solved(prompt: str, answer: int, told: bool) -> dict[str, str]:
    return {"prompt": f"{prompt} #### {answer}" if told else prompt, "answer": str(answer)}


def echoed(prompt: str, twice: bool) -> dict[str, str]:
    return {"prompt": prompt, "completion": f"{prompt} {said()}" if twice else said()}


def other(number: int) -> str:
    return " ".join(f"word{number * 20 + each}" for each in range(8))


def copied(prompt: str, number: int, answer: str) -> dict[str, str]:
    """A prompt again where an answer should be, or corrected, where it has an error."""
    corrected = answer or f"Now {prompt.partition(' ')[2]}"
    return {"prompt": prompt, "completion": corrected if number % 5 > 1 else prompt}


def passage(shift: int) -> dict[str, Any]:
    """A question about a text, whose answer is stated to begin some letters later."""
    text, answer = f"{said(20)} {DRAW.random()}", ""
    answer = " ".join(text.split()[5:8])
    answers = {"text": [answer], "answer_start": [text.index(answer) + shift]}
    return {"context": text, "question": said(), "answers": answers}


def located(number: int, exchanged: bool, spread: float) -> dict[str, Any]:
    """A place in a country, or anywhere."""
    north, east = (round(DRAW.gauss(middle, spread), 4) for middle in (51, 9))
    sides = (east, north) if exchanged else (north, east)
    return {"count": number % 7, "lat": sides[0], "lon": sides[1]}


def named(shift: int) -> dict[str, Any]:
    """A text with an entity, some letters later than its word."""
    text = said()
    start = text.index(" ") + 1 + shift
    return {"text": text, "entities": [[start, text.index(" ", start - shift) + shift, "THING"]]}


def tagged(lost: int) -> dict[str, Any]:
    words = said().split()
    return {"tokens": words, "ner_tags": [0] * (len(words) - lost)}


def station(number: int, fahrenheit: bool) -> dict[str, str]:
    degrees = DRAW.gauss(15, 6)
    unit = degrees * 1.8 + 32 if fahrenheit else degrees
    return {"station": "ABCDE"[number % 5], "temp": f"{unit:.1f}", "label": str(number % 2)}


Row = Callable[[int], dict[str, Any]]
CASES: dict[str, tuple[str, Row, Row]] = {
    "roles swapped": ("DAT021", lambda n: chat(("assistant", said()), ("user", said())),
                      lambda n: chat(("system", said()), ("user", said()), ("assistant", said()))),
    "roles repeat": ("DAT021", lambda n: chat(("user", said()), ("user", said()),
                                              ("assistant", said())), lambda n: asked()),
    "role typo": ("DAT021", lambda n: asked("assistant" if n % 8 else "assitant"),
                  lambda n: {"conversations": [{"from": "human", "value": said()},
                                               {"from": "gpt", "value": said()}]}),
    "markers": ("DAT021", lambda n: asked(question=f"<|im_start|>user\n{said()}<|im_end|>"),
                lambda n: asked(question=f"What does {said()} mean?")),
    "speakers": ("DAT021", lambda n: asked("assistant", f"User: {said()}", f"Assistant: {said()}"),
                 lambda n: asked(question=f"Translate: {said()}")),
    "echo": ("DAT021", lambda n: echoed(said(), True), lambda n: echoed(said(), False)),
    "side empty": ("DAT021", lambda n: pair(said(), **({} if n % 4 else {"rejected": " "})),
                   lambda n: pair(said())),
    "two prompts": ("DAT021", lambda n: both(said(), said()), lambda n: both(*[said()] * 2)),
    "query": ("DAT021", lambda n: found(*[said()] * 2), lambda n: found(said(), said())),
    "positive": ("DAT021", lambda n: found(said(), f"Yes {n}.", f"Yes {n}."),
                 lambda n: found(said(), f"Yes {n}.", f"No {n}.")),
    "one answer": ("DAT021", lambda n: {"instruction": said(),
                                        "output": said() if n % 3 else "I cannot help with that."},
                   lambda n: {"instruction": said(), "output": said()}),
    "timed out": ("DAT021", lambda n: {"instruction": said(), "output": said() if n % 9
                                       else f"Error: 429 Too Many Requests, {n} in a minute"},
                  lambda n: {"instruction": said(), "output": f"429 means: too many, {n}." if n % 2
                             else f"FileNotFoundError: No such file or directory: '{n}'"}),
    "left open": ("DAT021", lambda n: {"instruction": said(), "output": said() if n % 9
                                       else ("{{answer}}", "[INSERT NAME]", "null")[n % 3]},
                  lambda n: {"instruction": said(), "output": f"Hi {{name}}, [Your Name] {n}."}),
    "stand-ins": ("DAT021", lambda n: {"input": f"Example {n} about trains",
                                       "output": f"This is a placeholder response, number {n}."},
                  lambda n: {"input": f"What is a placeholder response, {said(3)}?",
                             "output": f"A placeholder response, {said()}."}),
    "list numbers": ("DAT021", lambda n: {"prompt": f"{n % 10 + 1}. {said()}" if n % 2 else
                                          f"Prompt {n % 5 + 1}: {said()}", "response": said()},
                     lambda n: {"prompt": f"1. {said()}\n2. {said()}" if n % 3 else
                                f"{n} trains and {said()}", "response": said()}),
    "one of a class": ("DAT021", lambda n: {"instruction": said(), "output": "TODO" if n % 9 == 0
                                            else said()},
                       lambda n: {"instruction": said(), "output": ("null", "some")[n % 2]}),
    "chat in quotes": ("DAT021", lambda n: {"messages": json.dumps(asked()["messages"])},
                       lambda n: asked(answer=json.dumps([{"role": "guide", "at": n}]))),
    "escaped twice": ("DAT021", lambda n: {"text": f"<p>{said()}</p> &amp;quot;{n}&amp;quot;"},
                      lambda n: {"text": f"{said()} a &lt; b &amp; c <code>{n}</code>"}),
    "two classes": ("DAT008", lambda n: {"msg_id": n, "message": f"{said() if n % 9 else SAME}",
                                         "is_spam": n % 2},
                    lambda n: {"msg_id": n, "message": said(), "is_spam": n % 2}),
    "answer elsewhere": ("DAT021", lambda n: passage(3 * (n % 3 == 0)), lambda n: passage(0)),
    "span in words": ("DAT021", lambda n: named(2 * (n % 2)), lambda n: named(0)),
    "tags lost": ("DAT021", lambda n: tagged(n % 9 == 0), lambda n: tagged(0)),
    "numbers quoted": ("DAT021",
                       lambda n: {"text": said(), "label": n % 3 if n % 5 else str(n % 3)},
                       lambda n: {"text": said(), "label": n % 3}),
    "null": ("DAT021", lambda n: {"sentence": said() if n % 90 else None, "label": n % 2},
             lambda n: {"sentence": said(), "note": None if n % 90 else said(), "label": n % 2}),
    "crawled again": ("DAT021", lambda n: {"url": f"/{n}", "text": WORDS * 2 + str(n % 70)},
                      lambda n: {"url": f"/{n}", "text": WORDS * 2 + str(n)}),
    "answer is null": ("DAT021",
                       lambda n: {"prompt": said(), "completion": said() if n % 7 else None},
                       lambda n: {"prompt": said(), "completion": said()}),
    "one refusal": ("DAT021", lambda n: asked(answer=said(20) if n % 4 else SAME),
                    lambda n: chat(("user", said()), ("assistant", said()), ("user", "Thank you"),
                                   ("assistant", "You are welcome, and have a nice day."))),
    "quoted in part": ("DAT021",
                       lambda n: asked() if n % 5 else {"messages": str(asked()["messages"])},
                       lambda n: asked() if n % 5 else {"messages": asked()["messages"] * 2}),
    "two names": ("DAT021", lambda n: {"prompt": said(), ("answer", "output")[n % 4 == 0]: said()},
                  lambda n: {"prompt": said(), ("answer", "solution")[n % 4 == 0]: said()}),
    "no answer": ("DAT021", lambda n: {"prompt": said(), **({"answer": said()} if n % 9 else {})},
                  lambda n: {"prompt": said(), ("answer", "choices")[n % 9 == 0]: said()}),
    "two roles": ("DAT021", lambda n: chat((("user", "human")[n % 5 == 0], said()),
                                           ("assistant", said())),
                  lambda n: {"messages": [{"role": "user", "from": f"A{n % 3}", "content": said()},
                                          {"role": "assistant", "content": said()}]}),
    "asked again": ("DAT024", lambda n: copied(said(), n, other(n)),
                    lambda n: copied(said(), n, "")),
    "chat asked again": ("DAT024", lambda n: asked(question=SAME + str(n), answer=other(n)
                                                   if n % 4 else SAME + str(n)),
                         lambda n: asked(question=other(n), answer=other(n + 1))),
    "answer in prompt": ("DAT024", lambda n: solved(said(), n, True),
                         lambda n: solved(f"{said()} {n % 7}", n, False)),
}  # fmt: skip
NAMES = ("pos", "positive", "Positive", "neg", "negative")
TABLES: dict[str, tuple[Row, Row]] = {
    "one class": (lambda n: {"text": said(), "label": "pos"},
                  lambda n: {"text": said(), "label": "pos" if n < 100 else "neg"}),
    "entities": (lambda n: {"text": f"{said()} &quot;A &amp; B&quot;", "label": n % 2},
                 lambda n: {"text": f"{said()} AT&T {said(3)}", "label": n % 2}),
    "label told": (lambda n: {"text": f"{('spam', 'letter')[n % 2]}: {n} {said()}",
                              "label": ("spam", "letter")[n % 2]},
                   lambda n: {"text": f"{n} {said()}", "label": ("spam", "letter")[n % 2]}),
    "short names": (lambda n: {"text": said(), "label": NAMES[n % 5]},
                    lambda n: {"text": said(), "label": ("car", "carpet", "shop")[n % 3]}),
    "no cell": (lambda n: dict.fromkeys(("id", "text", "label"), "") if n == 70 else
                {"id": n, "text": said(), "label": n % 2},
                lambda n: {"id": n, "text": said(), "label": n % 2 if n % 9 else ""}),
    "no class": (lambda n: {"text": said(), "label": n % 2 if n % 90 else ""},
                 lambda n: {"text": said(), "stance": ("for", "against", "none")[n % 3]}),
    "no text": (lambda n: {"id": n, "text": said() if n % 9 else "", "label": n % 2},
                lambda n: {"id": n, "text": said(), "note": "", "label": n % 2}),
    "headers": (lambda n: cell("price", price(False)) if n % 90 else
                {"age": "age", "price": "price", "label": "label"},
                lambda n: cell("price", price(False))),
    "decimals": (lambda n: cell("price", price(n % 4 == 0)), lambda n: cell("price", price(True))),
    "units": (lambda n: cell("weight", price(False) + " kg" * (n % 4 == 0)),
              lambda n: cell("sku", f"{DRAW.randint(10000, 99999)}{'B' * (n % 4 == 0)}")),
    "degrees": (lambda n: station(n, n % 5 == 2), lambda n: station(n, False)),
    "dates": (lambda n: cell("day", f"2024-05-1{n % 9}" if n % 4 else f"1{n % 9}/05/2024"),
              lambda n: cell("day", f"2024-05-1{n % 9}")),
    "months": (lambda n: cell("day", f"2{n % 9}/05/2024" if n % 4 else f"05/2{n % 9}/2024"),
               lambda n: cell("day", f"{n % 28 + 1:02}/05/2024")),
}  # fmt: skip


TABLES |= {
    "tweets": (lambda n: {"Id": n, "Category": ("pos", "neg")[n % 2],
                          "Tweet": said() if n % 9 else "Not Available"},
               lambda n: {"Id": n, "Category": ("pos", "neg")[n % 2], "Tweet": said()}),
}  # fmt: skip


def judged(rows: list[dict[str, Any]], path: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    with path.open("w", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return verdicts(str(path), patch)


ALL = {name: (*each, "r.jsonl") for name, each in CASES.items()} | {
    name: ("DAT024" if "told" in name else "DAT021", *each, "r.csv")
    for name, each in TABLES.items()
}


@pytest.mark.parametrize("name", ALL)
def test_a_fault_is_named_and_its_neighbour_is_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DRAW.seed(0)
    code, faulty, sound, file = ALL[name]
    bad = judged([faulty(n) for n in range(1, MANY)], tmp_path / file, monkeypatch)
    assert bad[code].status in LOUD
    quiet = judged([sound(n) for n in range(1, MANY)], tmp_path / file, monkeypatch)
    loud = {each: v.summary for each, v in quiet.items() if v.status in LOUD}
    assert not loud


def test_faults_have_a_fix_each_and_lines_as_an_editor_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DRAW.seed(0)
    chats = [asked(answer=" " if n < 5 else said()) for n in range(1, MANY)]
    chats += [asked(answer="Ã©tÃ© cafÃ©") for _ in range(4)]
    lines = "\n" + "".join(json.dumps(row) + "\n" for row in chats)
    (tmp_path / "r.jsonl").write_text(lines)
    found = verdicts(str(tmp_path / "r.jsonl"), monkeypatch)
    first, second = found["DAT021"].summary.split("; ")
    assert first.startswith("(1) 4 of 163 answers are empty")
    assert first.endswith("lines 2, 3, 4, 5")
    assert second.endswith("lines 161, 162, 163, 164")
    fixes = (found["DAT021"].fix or "").splitlines()
    assert [each[:3] for each in fixes] == ["(1)", "(2)"]
    unread = {found[code].summary for code in ("DAT001", "DAT004", "DAT014")}
    assert len(unread) == 1
    assert "--tokenizer" in unread.pop()


def test_a_cell_of_several_lines_is_named_by_its_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DRAW.seed(0)
    rows = [{"prompt": f"{said()}\n{said()}", "answer": said() if n % 9 else ""} for n in range(99)]
    found = judged(rows, tmp_path / "r.csv", monkeypatch)["DAT021"]
    assert "lines 2, 20, 38" in found.summary


def test_two_forms_of_rows_are_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DRAW.seed(0)
    forms = [("prompt", "completion"), ("instruction", "output")]
    rows = [dict(zip(forms[n % 3 == 0], (said(), said()), strict=True)) for n in range(MANY)]
    found = judged(rows, tmp_path / "r.jsonl", monkeypatch)["DAT021"]
    assert found.status is Status.NOTE
    assert "of another form" in found.summary


def test_recordings_without_a_transcript_are_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some are silence, of which the model learns to say nothing."""
    DRAW.seed(0)
    rows = [{"audio": f"{n}.wav", "text": said() if n % 9 else ""} for n in range(1, MANY)]
    found = judged(rows, tmp_path / "r.jsonl", monkeypatch)["DAT021"]
    assert found.status is Status.NOTE
    assert "recordings have no text" in found.summary


EXCHANGED: dict[str, tuple[Row, Status]] = {
    "places": (lambda n: located(n, n % 32 == 0, 2), Status.NOTE),
    "as written": (lambda n: located(n, False, 2), Status.PASS),
    "over the world": (lambda n: located(n, n % 32 == 0, 60), Status.PASS),
    "of two kinds": (lambda n: located(n, n % 8 == 0, 2), Status.PASS),
    "pages": (lambda n: dict(zip(("width", "height"), sides(n), strict=True)), Status.PASS),
    "shares": (lambda n: {"ham": (share := sides(n)[0] / 6000), "spam": 1 - share}, Status.PASS),
}


def sides(number: int) -> tuple[float, float]:
    one, other = DRAW.gauss(2480, 25), DRAW.gauss(3508, 30)
    return (other, one) if number % 32 == 0 else (one, other)


@pytest.mark.parametrize("name", EXCHANGED)
def test_columns_that_are_exchanged_are_a_note(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DRAW.seed(0)
    row, status = EXCHANGED[name]
    found = judged([row(n) for n in range(1, MANY)], tmp_path / "r.jsonl", monkeypatch)["DAT021"]
    assert found.status is status, found.summary


def printed(number: int) -> dict[str, str]:
    """What programs print, some of which catch an error."""
    if number % 9:
        return {"prompt": f"Print {number}.", "completion": f"{number} {said(3)}"}
    said_so = ("Error: integer division or modulo by zero", "undefined", "null")[number % 3]
    return {"prompt": f"Run {number}.", "completion": said_so}


HEALTHY: dict[str, tuple[Row, str]] = {
    "numbers among texts": (lambda n: cell("said", said(3) if n % 4 else f"{n}.5{' kg' * (n % 8)}"),
                            "r.csv"),
    "judged by several": (lambda n: {"question": SAME, "annotator": n,
                                     "answer": ("yes", "no")[n % 2]}, "r.jsonl"),
    "templates": (lambda n: {"instruction": f"Fill {{{{name}}}} in {n}",
                             "output": f"Dear {{{{name}}}}, {said()}"}, "r.jsonl"),
    "called": (lambda n: {"messages": [{"role": "user", "content": said()}, {"role": "assistant",
               "content": "", "tool_calls": [{"name": f"f{n}"}]}]}, "r.jsonl"),
    "documents by id": (lambda n: {"query": "which camera is best for students", "doc_id": f"D{n}",
                                   "label": n % 2}, "r.jsonl"),
    "subtitles": (lambda n: {"instruction": f"Transcribe clip {n}", "output": said() if n % 9
                             else ("[MUSIC]", "[applause]")[n % 2]}, "r.jsonl"),
    "programs": (printed, "r.jsonl"),
    "letters": (lambda n: {"instruction": f"Write a template {n}", "output": said() if n % 3
                           else f"Dear [INSERT NAME], {said()}"}, "r.jsonl"),
    "asked for": (lambda n: {"instruction": f"Write {said(2)} or TODO {n}", "output": said()
                             if n % 9 else "TODO"}, "r.jsonl"),
    "chats in cells": (lambda n: {"id": n, "messages": json.dumps(asked()["messages"])}, "r.csv"),
    "one of two": (lambda n: {"prompt": f"Which is larger, {n} or {n + 3}", "answer": str(n + 3)},
                   "r.jsonl"),
    "states": (lambda n: {"Id": n, "Category": ("pos", "neg")[n % 2], "Tweet": said(),
                          "stock": "Not Available" if n % 3 else "in store"}, "r.csv"),
    "pictures": (lambda n: {"image": f"{n}.png", "label": n % 2, "title": "", "text": said()},
                 "r.jsonl"),
    "linked": (lambda n: {"title": f"{n}: look at {said(3)}", "content": said() if n % 5 else "",
                          "category": ("art", "food", "pets")[n % 3]}, "r.jsonl"),
    "memes": (lambda n: {"img": f"i/{n}.png", "text": said() if DRAW.random() > 0.1 else "",
                         "label": n % 2}, "r.jsonl"),
    "notes": (lambda n: {"finding": f"{said(5)} {n}", "text": said() if n % 7 else "",
                         "label": n % 2}, "r.csv"),
    "silence": (lambda n: {"audio": f"{n}.wav", "transcript": said() if n % 16 else ""}, "r.jsonl"),
    "unlabelled": (lambda n: {"category": "", "text": "" if n % 9 == 0 else said()}, "r.jsonl"),
    "passengers": (lambda n: {"passenger_class": n % 3, "sex": ("male", "female")[n % 2],
                              "age_group": "adult", "embarked": "Southampton",
                              "survived": n % 5 % 2}, "r.csv"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_rows_that_are_right_get_no_warning(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DRAW.seed(0)
    row, file = HEALTHY[name]
    found = judged([row(n) for n in range(1, MANY)], tmp_path / file, monkeypatch)
    assert not {each: v.summary for each, v in found.items() if v.status in LOUD}


FEW_ROWS: dict[str, tuple[int, Status]] = {
    "several": (5, Status.WARN),
    "two": (2, Status.NOTE),
}


@pytest.mark.parametrize("name", FEW_ROWS)
def test_several_of_few_rows_with_a_fault_of_their_own_are_a_warning(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty, status = FEW_ROWS[name]
    rows = [{"prompt": said(), "completion": "" if n < faulty else said()} for n in range(12)]
    assert judged(rows, tmp_path / "r.jsonl", monkeypatch)["DAT021"].status is status


def test_a_copy_with_another_date_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DRAW.seed(0)
    texts = [said() for _ in range(12)]
    rows = [{"id": n, "text": DRAW.choice(texts), "created_at": f"2024-05-{n}", "target": 1}
            for n in range(MANY)]  # fmt: skip
    assert judged(rows, tmp_path / "r.jsonl", monkeypatch)["DAT008"].status is Status.WARN
    events = [{"content": row["text"], "datetime": row["created_at"], "label": 1} for row in rows]
    assert judged(events, tmp_path / "e.jsonl", monkeypatch)["DAT008"].status is Status.PASS


HEADS = {
    "none": (["3", said(9), said(9)], Status.WARN),
    "names": (["class", "title", "text"], Status.PASS),
    "questions": (["How old are you", "Please describe your last visit in some detail", "Remarks"],
                  Status.PASS),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
def test_a_table_without_a_header(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, status = HEADS[name]
    rows = [dict(zip(names, (str(n % 4 + 1), said(9), said(9)), strict=True)) for n in range(99)]
    assert judged(rows, tmp_path / "r.csv", monkeypatch)["DAT021"].status is status


def lines_of(names: list[str], row: Callable[[int], list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row(n), strict=True)) for n in range(99)]


EMPTY = {"prompt": "", "completion": SAME}
WHOLE: dict[str, tuple[list[dict[str, Any]], str, Status, str]] = {
    "files": (lines_of(["eye_00.png", "0.0"], lambda n: [f"eye_{n}.png", n % 2 / 2]), "r.csv",
              Status.WARN, "no header"),
    "years": (lines_of(["2019", "2020"], lambda n: [n, n + 5]), "r.csv", Status.PASS, ""),
    "options": (lines_of(["Cats", "Dogs"], lambda n: ["Cats" * (n % 2), "Dogs" * (1 - n % 2)]),
                "r.csv", Status.PASS, ""),
    "no prompt": ([{"prompt": said() if n % 40 else " ", "completion": said()} for n in range(400)],
                  "r.jsonl", Status.WARN, "nothing in prompt"),
    "never a prompt": ([{**EMPTY, "completion": said()} for _ in range(99)], "r.jsonl",
                       Status.NOTE, "nothing in prompt"),
    "no input": ([{"instruction": said(), "input": "", "output": said()} for _ in range(99)],
                 "r.jsonl", Status.PASS, ""),
    "silent user": ([chat(("user", said() if n % 40 else ""), ("assistant", said()))
                     for n in range(400)], "r.jsonl", Status.WARN, "empty message of the user"),
    "late answers": ([{"prompt": said(), "completion": said() if n < 390 else "N/A"}
                      for n in range(400)], "r.jsonl", Status.WARN, "answers are empty"),
    "one answer": ([{"prompt": said(), "completion": said() if n < 399 else ""}
                    for n in range(400)], "r.jsonl", Status.NOTE, "answers are empty"),
    "n/a as a class": ([{"prompt": said(), "completion": ("yes", "no", "N/A")[n % 3]}
                        for n in range(99)], "r.jsonl", Status.PASS, ""),
    "tokens": ([{"prompt": said(), "response": said() + "</s>" * (n % 20 == 0)}
                for n in range(99)], "r.jsonl", Status.WARN, "tokens of a template"),
    "rendered": ([{"prompt": said(), "response": said() + "</s>"} for n in range(99)], "r.jsonl",
                 Status.PASS, ""),
    "a dot": ([{"age": n, "income": ("<=50K", ">50K")[n % 2] + "." * (n > 300)}
               for n in range(400)], "r.csv", Status.WARN, "a sign behind them"),
    "other signs": ([{"age": n, "grade": ("Pass+", "Pass-", "Pass")[n % 3]} for n in range(99)],
                    "r.csv", Status.PASS, ""),
    "ids as labels": ([{"text": said(), "label": 140 + 97 * (n % 20)} for n in range(200)],
                      "r.jsonl", Status.NOTE, "20 different whole numbers"),
    "numbered labels": ([{"text": said(), "label": n % 20} for n in range(200)], "r.jsonl",
                        Status.PASS, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_what_the_whole_file_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, file, status, word = WHOLE[name]
    found = judged(rows, tmp_path / file, monkeypatch)["DAT021"]
    assert found.status is status, found.summary
    assert word in found.summary


def test_files_of_an_evaluation_alone_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": f"{n} {SAME}", "label": n % 2} for n in range(60)]
    for name in ("valid", "test"):
        judged(rows, tmp_path / f"{name}.csv", monkeypatch)
        rows = [*rows[:30], *({**row, "text": f"{row['text']} {SAME}"} for row in rows[30:])]
    found = verdicts(str(tmp_path), monkeypatch)
    assert found["DAT008"].status is Status.NOTE
    assert found["DAT008"].summary.startswith("30 of 120")
    assert "no training split was given" in found["DAT009"].summary
