"""Look at the data of a target: python launch.py FD training_side.data.look REQUEST

REQUEST is JSON: {"kind": "factory", "file": "train.py", "name": "make", "arguments": [],
"tokenizer": "", "splits": ["train"], "samples": 256, "seconds": 10.0, "show": 0}.
Notes are fields of doctor.facts.data.Data, {"data": {...}}, and splits, {"split": {...}}.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any, Dict, List, Optional

from ... import wire
from ..foreign import Foreign, observing
from . import (
    chats,
    documents,
    files,
    inputs,
    keeper,
    labels,
    mixing,
    offsets,
    pace,
    padding,
    pairs,
    reading,
    rows,
    samples_shown,
    targets,
    templates,
    vocabulary,
    workers,
)

HANG_SECONDS = 60.0
"""In which the loader delivers no batch."""
SIMPLE_SAMPLERS = (
    "BatchSampler",
    "RandomSampler",
    "SequentialSampler",
    "DistributedSampler",
    "NoneType",
    "_InfiniteConstantSampler",
    "SeedableRandomSampler",
    "BatchSamplerShard",
)
COMPARED = 3.0
"""Times --sample-time in which the rows of a split are compared."""
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "WANDB_MODE": "disabled",
    "WANDB_DISABLED": "true",
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "MLFLOW_TRACKING_URI": "file:/dev/null",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""No tracker and no hub is contacted."""


def main(text: str) -> None:
    request = json.loads(text)
    os.environ.update(OFFLINE)
    keeper.keep()
    Look(request).run()
    sys.stdout.flush()
    os._exit(0)  # threads and workers of the user's code do not hold it


class Look:
    """One examination; what was read until a hang is sent by the watchdog."""

    def __init__(self, request: Dict[str, Any]) -> None:
        self.request = request
        self.vocabulary = vocabulary.Vocabulary()
        self.opened = targets.Opened([])
        self.split: Optional[SplitLook] = None
        self.sending = threading.Lock()

    def run(self) -> None:
        try:
            self.opened = self._open()
        except Exception as error:
            note(problem=named(error), opened={"how": "error", "detail": type(error).__name__})
            wire.send(answer={"done": True})
            return
        note(opened={"how": "ok"})
        try:
            self._read_vocabulary()
        except Exception as error:
            note(tokenizer="not read: %s" % type(error).__name__)
        threading.Thread(target=self._watch, daemon=True).start()
        sources = [s for s in self.opened.sources if s.name in self.request["splits"]]
        for source in sources:
            self._read(source)
        self.split = None
        self._compare(sources)
        wire.send(answer={"done": True})

    def _open(self) -> targets.Opened:
        if self.request["kind"] == "file":
            opened = targets.Opened(files.open_path(self.request["path"]))
        else:
            opened = targets.call(self.request)
        directory = self.request.get("model")
        return targets.with_model(opened, directory) if directory else opened

    def _compare(self, sources: List[targets.Source]) -> None:
        """Equal rows, and files."""
        observing.attempt(lambda: note(shards=files.shards(sources)), None)
        train = next((each for each in sources if each.name == "train"), None)
        other = next((each for each in sources if each.name == "eval"), None)
        if train is None:
            return
        seconds = COMPARED * float(self.request["seconds"])
        with wire.stage("compare rows"):
            try:
                content = rows.read(train, seconds)
                broken = observing.attribute(train.items, "broken")
                note(repeats=rows.repeats(content), broken=named(broken) if broken else None)
                if other is not None:
                    note(overlap=rows.overlap(content, other, seconds))
            except Exception as error:
                reason = "reading the rows raised %s" % type(error).__name__
                note(repeats=unknown(reason), overlap=unknown(reason) if other else None)

    def _read_vocabulary(self) -> None:
        opened = self.opened
        tokenizer = opened.tokenizer
        if tokenizer is None:
            tokenizer = observing.attribute(opened.collator, "tokenizer")
        self.vocabulary = vocabulary.of_objects(
            tokenizer, opened.module, opened.trainer, self.request["tokenizer"]
        )
        note(tokenizer=self.vocabulary.origin)

    def _read(self, source: targets.Source) -> None:
        directory = self.request["tokenizer"]
        look = self.split = SplitLook(source, self.vocabulary, self.opened.module, directory)
        look.show = int(self.request["show"])
        with wire.stage("read %s" % source.name):
            for batch in look.reading.batches_of(self.request["samples"], self.request["seconds"]):
                look.add(batch)
        measured = source.name == "train" and self.opened.module is not None
        if measured and look.batches:
            assert self.opened.module is not None
            assert self.opened.loss is not None
            look.mixing.measure(self.opened.module, self.opened.loss, look.batches[0])
            if look.inputs.samples:
                look.inputs.measure(self.opened.module, self.opened.loss, look.batches)
        if source.name == "train" and self.request.get("pace"):
            with wire.stage("time the loader"):
                look.pace = pace.pace(source)
        with self.sending:
            wire.send(note={"split": look.record(), "shown": look.shown})
            self.split = None
        if measured:
            self._measure(look)

    def _measure(self, look: "SplitLook") -> None:
        """Where the loss reads its labels."""
        opened = self.opened
        if look.first is None or look.tokens is None or look.tokens.labels is None:
            return
        assert opened.module is not None
        assert opened.loss is not None
        with wire.stage("measure where the loss reads its labels"):
            note(offset=offsets.record(opened.module, opened.loss, look.first, look.tokens))

    def _watch(self) -> None:
        """End the process if no batch comes; what was read is sent."""
        while True:
            time.sleep(1.0)
            look = self.split
            since = look.reading.awaited_since if look is not None else None
            if look is None or since is None or time.monotonic() - since < HANG_SECONDS:
                continue
            with self.sending:
                if self.split is look and look.reading.awaited_since == since:
                    look.reading.ended = "hang"
                    wire.send(note={"split": look.record()})
                    wire.send(answer={"done": True})
                    os._exit(0)


class SplitLook:
    """Batches of a split as they come, and the counts over them."""

    def __init__(
        self,
        source: targets.Source,
        vocabulary: vocabulary.Vocabulary,
        module: Foreign,
        directory: str,
    ) -> None:
        self.source = source
        self.reading = reading.Reading(source)
        self.vocabulary = vocabulary
        self.padding = padding.Padding(vocabulary.pad)
        self.mixing = mixing.Mixing()
        self.inputs = inputs.Inputs(module, directory)
        self.pairs = pairs.Pairs()
        self.chats = chats.Chats(vocabulary)
        self.batches: List[Foreign] = []
        self.pace: Optional[Dict[str, Any]] = None
        self.show = 0
        self.shown: List[Dict[str, Any]] = []
        self.documents: List[documents.Document] = []
        self.first: Foreign = None
        self.tokens: Optional[documents.Tokens] = None
        self.other_labels = labels.OtherLabels()

    def add(self, batch: Foreign) -> None:
        tokens = documents.tokens_of(batch)
        if self.first is None:
            self.first, self.tokens = batch, tokens
        row = self.reading.rows
        self.pairs.add(batch, row)
        if len(self.shown) < self.show:
            self._show(batch, tokens, row)
        self.inputs.add(batch)
        if tokens is None or tokens.foreign_labels:
            self.other_labels.add(batch, row)
        if self.source.kind == "loader":
            self.mixing.add(batch, tokens, row)
            self.batches.append(batch)
        if tokens is None:
            self.documents += self.chats.documents(batch, row)
            return
        self.padding.add(tokens, row)
        self.documents += documents.documents(tokens, row, self.vocabulary.pad)

    def record(self) -> Dict[str, Any]:
        record = self.reading.record()
        each = list(self.documents)
        if each:
            record["lengths"] = labels.lengths(each)
            record["labels"] = labels.labels(each, None)
            record["starts"] = labels.starts(each, self.vocabulary)
            record["padding"] = self.padding.record() if self.padding.rows else None
            self._add_answers(record, each)
        if record.get("labels") is None:
            record["labels"] = self.other_labels.record()
        if record["labels"] is not None:
            record["labels"]["dropped"] = observing.attempt(lambda: rows.dropped(self.source), 0)
        if not self.pairs.pairs:
            observing.attempt(self._add_pairs_of_dataset, None)
        record["pairs"] = self.pairs.record()
        record["rendered"] = self.chats.record()
        record["inputs"] = self.inputs.record()
        record["pace"] = self.pace
        if self.source.kind == "loader":
            record["mixing"] = self.mixing.record(has_own_order(self.source.items))
            record["workers"] = observing.attempt(self._workers, None)
        return record

    def _add_pairs_of_dataset(self) -> None:
        """A collator may join the columns of chosen and rejected answers."""
        dataset = rows.dataset_of(self.source)
        names = observing.attribute(dataset, "column_names") or ()
        if any(str(name).startswith("chosen") for name in names):
            for number in range(min(len(dataset), max(1, self.reading.rows))):
                self.pairs.add(targets.as_batch(dataset[number]), number)

    def _add_answers(self, record: Dict[str, Any], each: List[documents.Document]) -> None:
        """What is said of answers, where the labels are tokens of the row."""
        own = (record["labels"] or {}).get("objective", "next token") == "next token"
        if own:
            prompt = templates.prompt_of(self.vocabulary)
            marker = prompt.marker if prompt is not None else []
            record["stops"] = labels.stops(each, self.vocabulary, marker)
            record["markers"] = templates.markers(each, self.vocabulary, prompt)

    def _show(self, batch: Foreign, tokens: Optional[documents.Tokens], row: int) -> None:
        most = self.show - len(self.shown)
        name = self.source.name
        if tokens is None and self.source.by_row:
            made = self.chats.documents(batch, row)
            tokens = chats.as_tokens(made[0]) if made else None
        self.shown += observing.attempt(
            lambda: samples_shown.of_batch(batch, tokens, self.vocabulary, name, row, most), []
        )

    def _workers(self) -> Optional[Dict[str, Any]]:
        return workers.twins(self.source, self.batches)


def has_own_order(loader: Foreign) -> bool:
    """Whether batches are chosen by a sampler that is none of torch's simple ones."""
    samplers = [observing.attribute(loader, name) for name in ("batch_sampler", "sampler")]
    return any(type(each).__name__ not in SIMPLE_SAMPLERS for each in samplers)


def note(**fields: Foreign) -> None:
    wire.send(note={"data": fields})


def unknown(reason: str) -> Dict[str, Any]:
    return {"type": "Unknown", "reason": reason}


def named(error: Exception) -> Dict[str, Any]:
    """The record Problem; the doctor's own messages are kept, they quote no row."""
    problem = reading.problem_of(error)
    if type(error).__name__ in ("NotData", "NotAFactory"):
        problem["error"] = str(error)
    elif isinstance(error, files.BrokenRow):
        problem = {"type": "Problem", "error": error.error, "row": error.row, "line": True}
    return problem
