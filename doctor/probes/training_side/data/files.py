"""Files of rows, read without a copy: JSON Lines, JSON, CSV, text, Parquet, saved datasets."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ..foreign import Foreign, observing
from . import tables, token_lines
from .chats import messages_of
from .targets import NotData, Source

KINDS = (".jsonl", ".ndjson", ".json", ".parquet", ".csv", ".tsv", ".txt", ".arrow")
IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
SPLITS = (("train", ("train",)), ("eval", ("eval", "validation", "valid", "val", "dev", "test")))
HEAD = 1 << 20
LARGEST_JSON = 2 << 30
MOST_NAMES, MOST_BELOW = 3, 10_000
"""Files that are named, and that are looked at where none has rows."""
POINTER = b"version https://git-lfs"


class BrokenRow(Exception):
    """A row that cannot be read; `row` is its line from 1, `file` the name of one file of
    several. `reason` as doctor.facts.data.Problem has it."""

    def __init__(self, row: int, error: str, reason: str = "") -> None:
        super().__init__(error)
        self.row, self.error, self.file, self.reason = row, error, "", reason


class Rows:
    """The rows of some files of one kind. Each iteration reads them anew."""

    def __init__(self, paths: List[str]) -> None:
        self.paths = paths
        self.left_out: List[str] = []
        """Files beside these that were taken as no split."""
        self.broken: Optional[BrokenRow] = None
        """The row at which `again` ended."""
        self._at = [0]

    @property
    def line(self) -> int:
        """Where the row that was read last begins, as an editor counts; 0 of several files, and
        where rows are no lines."""
        return self._at[0] if len(self.paths) == 1 else 0

    def __iter__(self) -> Iterator[Foreign]:
        for path in self.paths:
            try:
                if _is_pointer(path):
                    raise BrokenRow(1, "a git-LFS pointer in place of the rows", "pointer")
                yield from reader_of(path)(path, self._at)
            except BrokenRow as error:
                error.file = os.path.basename(path) if len(self.paths) > 1 else ""
                raise

    def again(self) -> Iterator[Foreign]:
        """The rows as far as they can be read."""
        try:
            yield from self
        except BrokenRow as error:
            self.broken = error


def _is_pointer(path: str) -> bool:
    """Whether a file is what git stores of one that is kept elsewhere."""
    with open(path, "rb") as file:
        return file.read(len(POINTER)) == POINTER


def are_cells(rows: Foreign) -> bool:
    """Whether rows are of a file that can hold a list as a text alone."""
    return isinstance(rows, Rows) and all(
        each.lower().endswith((".csv", ".tsv")) for each in rows.paths
    )


def are_lines(rows: Foreign) -> bool:
    """Whether rows are lines of a text."""
    return isinstance(rows, Rows) and all(reader_of(each) is _lines for each in rows.paths)


def open_path(path: str) -> List[Source]:
    """The splits of a file or a directory. Raises NotData."""
    if not os.path.isdir(path):
        if not os.path.isfile(path):  # a device or a pipe never ends, or ends at the first reading
            raise NotData("not a regular file")
        return [Source("train", "file", Rows([path]))]
    names = sorted(os.listdir(path))
    if {"dataset_info.json", "dataset_dict.json", "state.json"} & set(names):
        return _saved(path, names)
    found = [os.path.join(path, name) for name in names if name.endswith(KINDS)]
    below = [os.path.join(path, name, each) for name in names
             if os.path.isdir(os.path.join(path, name))
             for each in sorted(os.listdir(os.path.join(path, name)))]  # fmt: skip
    found += [each for each in below if each.endswith(KINDS)]
    found = [each for each in found if os.path.isfile(each)]
    if not found:
        raise _not_read(path, names)
    splits = [(name, Rows(paths)) for name, paths in by_split(found, path)]
    taken = {each for _, items in splits for each in items.paths}
    splits[0][1].left_out = [each for each in found if each not in taken]
    return [Source(name, "file", items) for name, items in splits]


def _not_read(path: str, names: List[str]) -> NotData:
    """What a directory without a file of rows holds, and what is read of one."""
    below = list(itertools.islice(_below(path), MOST_BELOW))
    read = ", ".join(KINDS)
    if not below:
        return NotData("no file is in the directory, and files of rows end in %s" % read)
    images = [each for each in below if each.lower().endswith(IMAGES)]
    if 2 * len(images) > len(below):
        folders = len({os.path.dirname(each) for each in images})
        there, where = _counted(len(images), "image"), _counted(folders, "directory", "directories")
        text = (
            "it holds %s in %s, and images are read by a function alone, such as one that returns"
        )
        return NotData("%s a torchvision.datasets.ImageFolder" % (text % (there, where)), "form")
    deeper = next((each for each in below if each.endswith(KINDS)), None)
    if deeper is not None:
        where = os.path.dirname(os.path.relpath(deeper, path))
        text = "the directory has files of rows only more than one directory below it, in %s"
        return NotData(text % where, "form")
    held = [name for name in names if os.path.isfile(os.path.join(path, name))]
    held = held or [os.path.relpath(each, path) for each in below]
    more = " and %d more" % (len(held) - MOST_NAMES) if len(held) > MOST_NAMES else ""
    listed = ", ".join(held[:MOST_NAMES]) + more
    return NotData(
        "the directory has no file that ends in %s; it holds %s" % (read, listed), "form"
    )


def _below(path: str) -> Iterator[str]:
    """The files of a directory and of those below it."""
    for directory, inner, names in os.walk(path):
        inner.sort()
        yield from (os.path.join(directory, name) for name in sorted(names))


def _counted(number: int, one: str, several: str = "") -> str:
    """ "1 image", "125 images"."""
    at_least = "at least " if number >= MOST_BELOW else ""
    return "%s%d %s" % (at_least, number, one if number == 1 else several or one + "s")


def by_split(paths: List[str], directory: str) -> List[Tuple[str, List[str]]]:
    """The files of each split, by their names, else by those of the directories below this one;
    all are train if none is named."""
    named: Dict[str, List[str]] = {"train": [], "eval": []}
    rest: List[str] = []
    for path in paths:
        parent, own = os.path.split(os.path.relpath(path, directory))
        name = split_named(own) or split_named(parent)
        (rest if name is None else named[name]).append(path)
    if not named["train"]:
        named["train"] = rest
    return [(name, each) for name, each in named.items() if each]


def split_named(text: str) -> Optional[str]:
    parts = set(re.split(r"[^a-z]+", text.lower()))
    return next((name for name, words in SPLITS if parts & set(words)), None)


def _saved(path: str, names: List[str]) -> List[Source]:
    """A directory that `datasets` saved."""
    try:
        import datasets
    except ImportError as error:
        raise NotData("a saved dataset needs the package datasets", "package") from error
    value = datasets.load_from_disk(path)
    if "dataset_dict.json" not in names:
        return [Source("train", "dataset", value, len(value))]
    found = []
    for name, words in SPLITS:
        key = next((word for word in words if word in value), None)
        if key is not None:
            found.append(Source(name, "dataset", value[key], len(value[key])))
    return found


def reader_of(path: str) -> Callable[[str, List[int]], Iterator[Foreign]]:
    ending = os.path.splitext(path)[1].lower()
    return {
        ".jsonl": _json_lines,
        ".ndjson": _json_lines,
        ".json": _json,
        ".csv": _csv,
        ".tsv": _csv,
        ".parquet": _parquet,
        ".arrow": _arrow,
    }.get(ending, _lines)


def _json_lines(path: str, at: List[int]) -> Iterator[Foreign]:
    decode = json.JSONDecoder().raw_decode
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if not line:
                continue
            try:
                text = line.decode("utf-8")
                row, end = decode(text)
            except (ValueError, RecursionError) as error:
                raise BrokenRow(number, type(error).__name__) from None
            if end < len(text):
                raise BrokenRow(number, "JSONDecodeError")
            at[0] = number
            yield row


def _json(path: str, at: List[int]) -> Iterator[Foreign]:
    """An array of rows, JSON Lines by another name, or one object that holds the rows."""
    with open(path, "rb") as file:
        head = file.read(HEAD)
        blank = len(head) - len(head.lstrip())
        file.seek(blank)
        first = file.readline()
        second = next((line for line in file if line.strip()), b"")
    if _are_lines(first, second):
        yield from _json_lines(path, at)
        return
    if os.path.getsize(path) > LARGEST_JSON:
        raise NotData("one JSON value of more than 2 GiB; write it as JSON Lines")
    with open(path, encoding="utf-8") as file:
        try:
            rows = json.load(file)
        except (ValueError, RecursionError) as error:
            if _object(second) is None or first.rstrip().endswith((b"[", b"{")):
                number, text = getattr(error, "lineno", 1), type(error).__name__
            else:  # JSON Lines, whose first one is broken
                number, text = head[:blank].count(b"\n") + 1, "a line that is no JSON object"
            raise BrokenRow(number, text) from None
    yield from _rows_inside(rows) if isinstance(rows, dict) else rows


def _are_lines(first: bytes, second: bytes) -> bool:
    """Whether a file is JSON Lines by its first line: an object, and if it is the only one, a row
    and not what holds the rows."""
    row = _object(first)
    if row is None or second or messages_of(row) is not None:
        return row is not None
    return len(_lists_of_rows(row)) != 1


def _object(line: bytes) -> Optional[Dict[str, Any]]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _rows_inside(value: Dict[str, Any]) -> List[Any]:
    """The one list of objects that a JSON object holds, as {"intents": [...]} and SQuAD's do."""
    of_rows = _lists_of_rows(value)
    if len(of_rows) != 1:
        raise NotData("a JSON object that does not hold one list of rows", "form")
    return of_rows[0]


def _lists_of_rows(value: Dict[str, Any]) -> List[List[Any]]:
    lists = [each for each in value.values() if isinstance(each, list)]
    return [each for each in lists if each and isinstance(each[0], dict)]


def _csv(path: str, at: List[int]) -> Iterator[Foreign]:
    csv.field_size_limit(1 << 27)
    usual = "\t" if path.lower().endswith(".tsv") else ","
    with open(path, encoding="utf-8-sig", newline="") as file:
        head = observing.attempt(lambda: file.read(tables.HEAD), "")
        file.seek(0)
        delimiter = tables.delimiter_of(head, usual, len(head) < tables.HEAD)
        reader = csv.DictReader(file, delimiter=delimiter)
        try:
            for row in reader:
                if None in row or None in row.values():
                    raise BrokenRow(reader.line_num, "a row of another number of columns")
                at[0] = reader.line_num - sum(each.count("\n") for each in row.values())
                yield row
        except (csv.Error, UnicodeDecodeError) as error:
            raise BrokenRow(reader.line_num, type(error).__name__) from None


def _lines(path: str, at: List[int]) -> Iterator[Foreign]:
    sentence: Optional[List[str]] = [] if token_lines.are_tokens(path) else None
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise BrokenRow(number, type(error).__name__) from None
            at[0] = number - len(sentence or ())
            if text and sentence is not None:
                sentence.append(text)
            elif text:
                yield {"text": text}
            elif sentence:
                yield {"text": "\n".join(sentence)}
                sentence = []
    if sentence:
        yield {"text": "\n".join(sentence)}


def _parquet(path: str, at: List[int]) -> Iterator[Foreign]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise NotData("a Parquet file needs the package pyarrow", "package") from error
    for batch in parquet.ParquetFile(path).iter_batches(batch_size=1024):
        yield from batch.to_pylist()


def _arrow(path: str, at: List[int]) -> Iterator[Foreign]:
    try:
        import pyarrow
    except ImportError as error:
        raise NotData("an Arrow file needs the package pyarrow", "package") from error
    with pyarrow.memory_map(path) as file:
        for batch in pyarrow.ipc.open_stream(file):
            yield from batch.to_pylist()
