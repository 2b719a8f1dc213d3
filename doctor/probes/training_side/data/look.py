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
from functools import partial
from typing import Any, Dict, List, Optional

from ... import wire
from ..foreign import Foreign, observing
from . import (
    between_splits,
    common_columns,
    encoded_views,
    file_order,
    files,
    held_tokenizer,
    joined,
    keeper,
    lines_and_files,
    merges,
    numbering,
    offsets,
    output_classes,
    pace,
    padded_loss,
    removed_columns,
    returned,
    row_overlap,
    row_values,
    rows,
    shards,
    sounds,
    split_look,
    stated,
    step_calls,
    targets,
    trial_batch,
    turns,
    two_splits,
    vocabulary,
    weighing,
    written_rows,
)
from .facets import questions
from .notes import code_of, named, note, unknown

HANG_SECONDS = 60.0
"""In which the loader delivers no batch."""
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
    look = Look(request)
    look.sounds, look.numbered = sounds.Opened(), file_order.Numbered()
    look.run()
    sys.stdout.flush()
    os._exit(0)  # threads and workers of the user's code do not hold it


class Look:
    """One examination; what was read until a hang is sent by the watchdog."""

    def __init__(self, request: Dict[str, Any]) -> None:
        self.request = request
        self.vocabulary = vocabulary.Vocabulary()
        self.opened = targets.Opened([])
        self.split: Optional[split_look.SplitLook] = None
        self.batches: Dict[str, List[Foreign]] = {}
        """The first ones of each split."""
        self.sending = threading.Lock()
        self.sounds: Optional[sounds.Opened] = None
        self.losses = stated.of_code(code_of(request))
        """What is known of the losses: by the source, and once there were steps by these."""
        self.steps: Optional[step_calls.StepCalls] = None
        self.numbered: Optional[file_order.Numbered] = None
        self.merges: Optional[merges.Merges] = None

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
            opened = targets.Opened(self._open_files())
        else:
            opened = returned.call(self.request, self._watch_merges)
        directory = self.request.get("model")
        return returned.with_model(opened, directory) if directory else opened

    def _open_files(self) -> List[targets.Source]:
        found = files.open_path(self.request["path"])
        if "eval" in self.request:
            (one,) = files.open_path(self.request["eval"])
            found.append(one._replace(name="eval"))
        return found

    def _watch_merges(self) -> None:
        self.merges = merges.watch()

    def _compare(self, sources: List[targets.Source]) -> None:
        """Equal rows, and files."""
        observing.attempt(lambda: note(shards=shards.of_sources(sources)), None)
        train = next((each for each in sources if each.name == "train"), None)
        other = next((each for each in sources if each.name == "eval"), None)
        if train is None and other is not None and other.by_row:  # files of an evaluation alone
            train, other = other, None
        if train is None or (other is None and not self.request.get("repeats", True)):
            return
        if other is not None:
            note(numbering=observing.attempt(lambda: numbering.of_splits(train, other), None))
        seconds = float(self.request["seconds"])
        with wire.stage("compare rows"):
            try:
                split = "" if train.name == "train" else train.name
                written = written_rows.WrittenRows(files.are_cells(train.items), split)
                values, pairs = row_values.RowValues(train, self.steps), joined.Joined()
                add = written.add if train.by_row else values.add

                def each(row: Foreign, number: int) -> None:
                    add(row, number)
                    pairs.add(row, number)

                content = rows.read(train, seconds, each)
                numbered = bool(rows.place_of(train.items, 0))
                found = written.records(content.complete, numbered) + values.records()
                found += observing.attempt(pairs.records, [])
                if self.merges is not None:
                    found += self.merges.records(sources)
                found += questions.of_splits((train, other), self.batches, self.opened.module)
                note(relations=found)
                broken = observing.attribute(train.items, "broken")
                repeats = rows.repeats(content, files.are_lines(train.items))
                note(repeats=repeats, broken=named(broken) if broken else None)
                if other is not None:
                    beside = written_rows.WrittenRows(files.are_cells(other.items), other.name)
                    columns = observing.attempt(
                        lambda: common_columns.of_splits(train, other), None
                    )
                    part = partial(common_columns.of, columns=columns)
                    compared = rows.read(train, seconds, part=part) if columns else content
                    overlap, classes = row_overlap.overlap(
                        compared, other, seconds, columns, beside.add if other.by_row else None
                    )
                    found += (
                        beside.records(False, bool(rows.place_of(other.items, 0)))
                        if other.by_row
                        else []
                    )
                    note(overlap=two_splits.overlap_of(train, other, overlap))
                    note(
                        relations=found
                        + between_splits.of_sources(train, other, self.batches, content, classes)
                    )
            except Exception as error:
                reason = "reading the rows raised %s" % type(error).__name__
                note(repeats=unknown(reason), overlap=unknown(reason) if other else None)

    def _read_vocabulary(self) -> None:
        opened = self.opened
        tokenizer = opened.tokenizer
        if tokenizer is None:
            tokenizer = observing.attribute(opened.collator, "tokenizer")
        if tokenizer is None and not self.request["tokenizer"]:
            tokenizer = observing.attempt(lambda: held_tokenizer.of_sources(opened.sources), None)
        self.vocabulary = vocabulary.of_objects(
            tokenizer, opened.module, opened.trainer, self.request["tokenizer"]
        )
        note(tokenizer=self.vocabulary.origin)

    def _read(self, source: targets.Source) -> None:
        directory, opened = self.request["tokenizer"], self.opened
        look = self.split = split_look.SplitLook(
            source, self.vocabulary, opened.module, directory, opened.criterion, self.losses
        )
        if source.name == "train" and opened.module is not None and opened.loss is not None:
            look.steps = step_calls.StepCalls(opened.module, opened.loss)
        look.whole = observing.attribute(opened.trainer, "%s_dataset" % source.name)
        look.show = int(self.request["show"])
        look.mixing.show = bool(look.show)
        with wire.stage("read %s" % source.name):
            for batch in look.reading.batches_of(self.request["samples"], self.request["seconds"]):
                look.add(batch)
        measured = source.name == "train" and self.opened.module is not None
        if source.name == "train" and look.reading.ended != "error":
            look.more += self._of_train(source, look.batches)
        if measured and look.batches:
            self._ask_loss(look)
        if source.name == "train" and self.request.get("pace"):
            with wire.stage("time the loader"):
                look.pace = pace.pace(source)
        self.steps = look.steps or self.steps
        self.losses = look.losses
        record = look.record()
        self._keep(look)
        with self.sending:
            wire.send(note={"split": record, "shown": look.shown})
            self.split = None
        if measured:
            self._measure(look)

    def _ask_loss(self, look: split_look.SplitLook) -> None:
        """What the model and its loss show of batches."""
        module, loss = self.opened.module, self.opened.loss
        assert module is not None
        assert loss is not None
        look.mixing.measure(module, loss, look.batches[0])
        look.classes = observing.attempt(
            lambda: output_classes.beyond(module, loss, look.batches), None
        )
        for of_loss in (output_classes.broadcast, padded_loss.of_batch):
            look.more += observing.attempt(partial(of_loss, module, loss, look.batches[0]), [])
        look.more += observing.attempt(
            lambda: encoded_views.of_batches(module, loss, look.batches), []
        )
        if look.inputs.samples:
            look.inputs.measure(module, loss, look.batches)

    def _keep(self, look: split_look.SplitLook) -> None:
        if look.reading.ended not in ("error", "hang"):
            self.batches[look.source.name] = look.batches[: two_splits.MOST_BATCHES]

    def _of_train(self, source: targets.Source, batches: List[Foreign]) -> List[Dict[str, Any]]:
        """What the target holds beside its batches: weights, and files of sound."""
        found = observing.attempt(lambda: weighing.of_target(self.opened, source), [])
        code = code_of(self.request)
        found += observing.attempt(lambda: sounds.of_source(source, self.sounds, code), [])
        if (numbered := self.numbered) is not None:
            found += observing.attempt(lambda: file_order.of_source(source, numbered), [])
        looks = (
            lambda: lines_and_files.of_source(source, code),
            lambda: turns.points(source, code),
            lambda: removed_columns.of_source(self.opened, source, batches),
        )
        return found + [one for look in looks for one in observing.attempt(look, [])]

    def _measure(self, look: split_look.SplitLook) -> None:
        """Where the loss reads its labels."""
        opened = self.opened
        if look.first is None or look.tokens is None or look.tokens.labels is None:
            return
        if look.losses.own is None and not trial_batch.has_labels(look.first):
            return  # a loss of preferences
        assert opened.module is not None
        assert opened.loss is not None
        with wire.stage("measure where the loss reads its labels"):
            found = offsets.record(opened.module, opened.loss, look.first, look.tokens)
        own = look.losses.own
        if own is None:
            note(offset=found)
        elif own.shifted:
            note(offset=offsets.of_shifted(found))
        elif not offsets.sees_all(found):  # else it is an autoencoder
            note(offset=found)

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
