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
from . import documents, keeper, labels, offsets, padding, reading, targets, vocabulary

HANG_SECONDS = 60.0
"""Without a batch."""
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
        self.alive = time.monotonic()
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
        for source in self.opened.sources:
            if source.name in self.request["splits"]:
                self._read(source)
        self.split = None
        wire.send(answer={"done": True})

    def _open(self) -> targets.Opened:
        return targets.call(self.request)

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
        look = self.split = SplitLook(source, self.vocabulary)
        with wire.stage("read %s" % source.name):
            for batch in look.reading.batches_of(self.request["samples"], self.request["seconds"]):
                self.alive = time.monotonic()
                look.add(batch)
        with self.sending:
            wire.send(note={"split": look.record()})
            self.split = None
        if source.name == "train" and self.opened.module is not None:
            self._measure(look)

    def _measure(self, look: "SplitLook") -> None:
        """Where the loss reads its labels."""
        opened = self.opened
        if look.first is None or look.tokens is None or look.tokens.labels is None:
            return
        assert opened.module is not None
        assert opened.loss is not None
        with wire.stage("measure where the loss reads its labels"):
            try:
                offset = offsets.measure(opened.module, opened.loss, look.first, look.tokens)
            except offsets.NotMeasurable as error:
                offset = unknown(str(error))
            except Exception as error:
                offset = unknown("the step on random tokens raised %s" % type(error).__name__)
        note(offset=offset)

    def _watch(self) -> None:
        """End the process if no batch comes; what was read is sent."""
        while True:
            time.sleep(1.0)
            look = self.split
            if look is None or time.monotonic() - self.alive < HANG_SECONDS:
                continue
            with self.sending:
                if self.split is look:
                    look.reading.ended = "hang"
                    wire.send(note={"split": look.record()})
                    wire.send(answer={"done": True})
                    os._exit(0)


class SplitLook:
    """Batches of a split as they come, and the counts over them."""

    def __init__(self, source: targets.Source, vocabulary: vocabulary.Vocabulary) -> None:
        self.reading = reading.Reading(source)
        self.vocabulary = vocabulary
        self.padding = padding.Padding(vocabulary.pad)
        self.documents: List[documents.Document] = []
        self.first: Foreign = None
        self.tokens: Optional[documents.Tokens] = None
        self.foreign_labels = False

    def add(self, batch: Foreign) -> None:
        tokens = documents.tokens_of(batch)
        if self.first is None:
            self.first, self.tokens = batch, tokens
        if tokens is None:
            return
        row = self.reading.rows
        self.padding.add(tokens, row)
        self.foreign_labels = self.foreign_labels or tokens.foreign_labels
        self.documents += documents.documents(tokens, row, self.vocabulary.pad)

    def record(self) -> Dict[str, Any]:
        record = self.reading.record()
        each = list(self.documents)
        if each:
            record["lengths"] = labels.lengths(each)
            record["labels"] = labels.labels(each, None)
            record["starts"] = labels.starts(each, self.vocabulary)
            record["stops"] = labels.stops(each, self.vocabulary)
            record["padding"] = self.padding.record()
        return record


def note(**fields: Foreign) -> None:
    wire.send(note={"data": fields})


def unknown(reason: str) -> Dict[str, Any]:
    return {"type": "Unknown", "reason": reason}


def named(error: Exception) -> Dict[str, Any]:
    """The record Problem; the doctor's own messages are kept, they quote no row."""
    problem = reading.problem_of(error)
    if type(error).__name__ in ("NotData", "NotAFactory"):
        problem["error"] = str(error)
    return problem
