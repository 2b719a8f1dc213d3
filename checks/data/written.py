"""What was written into the rows: answers, text, classes."""

from __future__ import annotations

from doctor._util.units import shown
from doctor.checks.data.relations import verdicts
from doctor.checks.data.seen import FEW, observed, of_splits, passed, rows, share
from doctor.checks.data.written_meanings import EMPTY, MEANINGS
from doctor.facts.data import Data, Split
from doctor.facts.data_rows import RowTexts
from doctor.judge.check import Check, Owner, Verdict, note, skip
from doctor.judge.combine import worst

FAULTY = 0.02
"""Share of rows from which on it is a warning. Our own number."""
RARE, REPLACED = 0.01, 0.05
"""Shares of rows with letters that were lost, for a note and for a warning. Our own numbers."""
ESCAPED = 0.2
"""The same of texts without line breaks that write them out. Our own number."""


def well_written(data: Data) -> Verdict:
    known = any(each.texts and _is_faulty(each.texts) for each in data.splits)
    relations = [each for each in data.relations if each.kind != "answer empty" or not known]
    found = [*of_splits(data, _well_written), *verdicts(relations, MEANINGS)]
    return worst(*found, numbered=True)


def _well_written(split: Split) -> list[Verdict]:
    texts = split.texts
    if texts is None:
        return [skip("TARGET has no rows of a file or a table")]
    faults = (_escaped, _garbled, _replaced, _asked, _pages, _columns)
    looked = [_empty(texts, split), *(fault(texts) for fault in faults)]
    answers = (
        share(texts.empty, texts.answers, "answers empty")
        if texts.answers
        else "no such fault is frequent"
    )
    return [each for each in looked if each is not None] or [passed(answers, split)]


def _escaped(texts: RowTexts) -> Verdict | None:
    if not texts.escaped or texts.escaped < ESCAPED * texts.rows:
        return None
    text = share(texts.escaped, texts.rows, "rows hold a backslash and n for a line break")
    where = rows(texts.escaped_rows, texts.lines)
    return observed(f"{text}: {where}", texts.rows, faulty=texts.escaped, fix=TWICE)


def _garbled(texts: RowTexts) -> Verdict | None:
    if not texts.garbled or texts.garbled < FAULTY * texts.rows:
        return None
    text = share(texts.garbled, texts.rows, "rows hold UTF-8 that was read as another encoding")
    where = rows(texts.garbled_rows, texts.lines)
    return observed(f"{text}: {where}", texts.rows, faulty=texts.garbled, fix=GARBLED,
                    sources=UNICODE)  # fmt: skip


def _replaced(texts: RowTexts) -> Verdict | None:
    """Pages of the network have a few such letters: a note, from more rows on a warning."""
    if texts.replaced < max(2, RARE * texts.rows):
        return _replaced_beside(texts)
    what = "rows have U+FFFD in place of letters that could not be decoded"
    text = f"{share(texts.replaced, texts.rows, what)}: {rows(texts.replaced_rows, texts.lines)}"
    if texts.replaced < REPLACED * texts.rows:
        return note(text, fix=LOST)
    return observed(text, texts.rows, fix=LOST, sources=UNICODE)


def _replaced_beside(texts: RowTexts) -> Verdict | None:
    """Of what is given, not learned: it may be so on purpose."""
    if texts.replaced_beside < max(2, RARE * texts.rows):
        return None
    what = "rows have U+FFFD in place of letters, in a prompt or a column beside the text"
    text = share(texts.replaced_beside, texts.rows, what)
    return note(f"{text}: {rows(texts.replaced_beside_rows, texts.lines)}", fix=LOST)


def _asked(texts: RowTexts) -> Verdict | None:
    if not texts.asked or texts.asked < FAULTY * texts.chats:
        return None
    text = share(texts.asked, texts.chats, "chats end with a message of the user")
    if texts.asked == texts.chats:  # prompts, as for reinforcement learning
        return note(f"{text}: they are prompts without answers", fix=ASKED)
    return observed(f"{text}, whose answer is missing: {rows(texts.asked_rows, texts.lines)}",
                    texts.chats, faulty=texts.asked, fix=ASKED)  # fmt: skip


def _pages(texts: RowTexts) -> Verdict | None:
    if not texts.pages or texts.pages < FAULTY * texts.documents:
        return None
    what = "documents are short pages of an error or a block, such as Access denied"
    text = share(texts.pages, texts.documents, what)
    return observed(f"{text}: {rows(texts.page_rows, texts.lines)}", texts.documents, fix=PAGES)


def _columns(texts: RowTexts) -> Verdict | None:
    for each in texts.spellings:
        if each.minor >= FAULTY * texts.rows and texts.rows >= FEW:
            word = "line" if texts.lines else "row"
            same = ", ".join(f"{word} {a:,} and {word} {b:,}" for a, b in each.pairs)
            by = "case, space or their beginning" if each.short else "case or space"
            text = (
                f"column {shown(each.column)}: {each.values} values are {each.classes} classes "
                f"in several spellings, by {by}: {same}"
            )
            return observed(text, texts.rows, fix=SPELLED + SHORTENED * bool(each.short))
    for leak in texts.leaks:
        text = (
            f"{shown(leak.column)} is filled in in {leak.filled:,} of {leak.rows:,} rows, and that "
            f"alone says their {shown(leak.label)}"
        )
        return observed(text, leak.rows, fix=LEAK)
    for cut in texts.cuts:
        what = f"texts of {shown(cut.column)} end at {cut.length:,} {cut.unit}, the longest, most "
        text = share(cut.rows, cut.of, f"{what}of them within a sentence")
        return observed(text, texts.rows, fix=CUT)
    for code in texts.sentinels:
        what = f"values of {shown(code.column)} are {float(code.value):g}, far from all others"
        text = share(code.rows, code.of, what)
        if float(code.value) > 0:  # a largest value, or a price, may be one
            return note(text, fix=MISSING)
        return observed(text, texts.rows, fix=MISSING)
    return None


def _is_faulty(texts: RowTexts) -> bool:
    return bool(texts.empty) and texts.empty >= FAULTY * texts.answers


def _empty(texts: RowTexts, split: Split) -> Verdict | None:
    if not _is_faulty(texts):
        return None
    text = share(texts.empty, texts.answers, "answers are empty or white space")
    if texts.marked_by:
        return passed(f"{text}, and {shown(texts.marked_by)} says which", split)
    if texts.contexts == texts.answers:
        return note(f"{text}, of questions about a text of the row", fix=EMPTY)
    where = rows(texts.empty_rows, texts.lines)
    return observed(f"{text}: {where}", texts.answers, faulty=texts.empty, fix=EMPTY)


UNICODE = ("utf8-debugging",)
TWICE = "Export the rows again, or decode each text once more: json.loads('\"' + text + '\"')."
ASKED = "Drop the last message of these chats, or add its answer."
PAGES = (
    "Drop these rows by the status code of the download, or by their text, and fetch the pages "
    "again; all copies of one page count as duplicates."
)
GARBLED = (
    "Export the rows again as UTF-8, or repair each of these texts once: "
    "b''.join(c.encode('latin-1' if ord(c) < 256 else 'cp1252') for c in text).decode('utf-8')."
)
LEAK = (
    "Leave this column out of the features, also as a mark that it is missing, unless it is known "
    "before the class is."
)
CUT = (
    "Export the answers whole, or drop those that end at this length: the model learns to stop "
    "within a sentence."
)
LOST = (
    "Read the source again with its own encoding (open(path, encoding=...), without "
    "errors='replace'): the letters are lost in this copy. Drop the rows that have them in the "
    "source."
)
MISSING = (
    "Read this number as missing (na_values= of pandas.read_csv), then drop or impute it and, "
    "where it says something, add a column that marks it: scaling takes it for a measurement."
)
SPELLED = (
    "Bring the classes to one spelling before they are numbered: "
    '" ".join(value.casefold().split()).'
)
SHORTENED = " Then map those that are the beginning of another one to it, if they are one class."

WRITTEN = Check(
    code="DAT021",
    slug="rows-well-written",
    title="Rows have answers, decoded text and one spelling for each class",
    why="A model that is trained on empty answers learns to say nothing, on cut ones to stop "
    "within a sentence; garbled letters become tokens of their own, each spelling of a class is a "
    "class, and -999 for a missing value is a measurement.",
    passes=("fewer than 2 % of the rows have such a fault, or a column marks the empty answers",),
    notes=(
        "all chats end with a message of the user, as prompts do",
        "the names of a table's columns look like a row of it",
        "fewer than 2 % of the answers are empty or hold the tokens of a template, or fewer than "
        "0.5 % of the prompts are empty",
        "no prompt, or more than 10 % of them, has a text; inputs are N/A where most are empty",
        "labels are whole numbers far beyond the number of classes",
        "at least 2 % of the answers to questions about a text of the row are empty",
        "at least 1 % of a column are one number such as 9999, far above all others",
        "one group of rows is some power of ten above or below all others, which are alike",
        "at least 2 % of the rows have prompt and answer in other columns than the rest",
        "1 to 5 % of the rows have U+FFFD in place of letters, or more of the prompts and of "
        "columns beside answers and documents",
        "1 to 5 % of the rows have the values of two columns exchanged",
    ),
    warns=(
        "at least 2 % of 32 or more answers are empty, and call no tool, or are in another column "
        "than the rest, or in none",
        "of fewer rows, three and a quarter of all have such a fault of their own",
        "at least 2 % of the answers hold tokens such as </s> and <|im_end|>",
        "0.5 to 10 % of the prompts, documents or chats have an empty text of the user",
        "the first row of a table is one of its rows by the kinds of its columns",
        "at least 2 % of the values of a column differ from another one by a dot behind them",
        "a row has nothing in any column, or no class or text where at least 90 % have one",
        "at least 20 % of free answers, of pairs and chats, are one text",
        "at least 30 % of the prompts begin with the number of a list",
        "at least 2 % of 32 or more rows hold UTF-8 that was decoded as Latin-1 or cp1252",
        "at least 5 % of 32 or more answers or documents have U+FFFD in place of letters, next to "
        "other letters",
        "at least 2 % of 32 or more chats, and not all, end with a message of the user",
        "at least 2 % of 32 or more documents are pages such as Access denied or 404 Not Found",
        "at least 20 % of 32 or more rows write out line breaks, and have none",
        "values of a column differ in case or in the space around them alone",
        "a column is filled in for some classes alone, in 64 or more rows",
        "at least 1 % of the answers end at the greatest length, most of them within a sentence",
        "at least 20 % of 32 or more documents of 100 characters occurred before",
        "answers or entities are not at the place in their text that is given, or tokens have "
        "another number of tags",
        "one group of rows is in another unit of temperature than all others",
        "answers are errors of a service, which occur three times or more, or places left open; "
        "chats in a file of JSON or Parquet are texts of JSON, also some of them",
        "at least 1 % of the chats spell a role otherwise than the rest, such as human and user",
        "at least 1 % of a column are one number such as -999, far below all others",
    ),
    fix="Look at the rows that are named.",
    owner=Owner.JOB,
    judge=well_written,
    limits="that answers are right, or that abbreviations of a class are the same class.",
)

CHECKS = (WRITTEN,)
