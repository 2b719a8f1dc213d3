"""Batches of one split as they come, and what each module counts over them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from ..foreign import Foreign, containers, observing
from ..subject import initial_weights
from . import (
    agreement,
    batch_looks,
    boxes,
    chats,
    documents,
    epoch_orders,
    given,
    given_answers,
    graphs,
    inputs,
    label_maps,
    labels,
    markers_held,
    mixing,
    padding,
    pairs,
    places,
    reading,
    relations,
    rereading,
    row_ends,
    row_looks,
    row_texts,
    rows,
    samples_shown,
    seeds,
    stated,
    step_calls,
    targets,
    templates,
    turns,
    views,
    vocabulary,
    whole_chats,
    workers,
)

NOTHING_STATED = stated.Stated()


class SplitLook:
    """Batches of a split as they come, and the counts over them."""

    def __init__(
        self,
        source: targets.Source,
        vocabulary: vocabulary.Vocabulary,
        module: Foreign,
        directory: str,
        criterion: Foreign = None,
        losses: stated.Stated = NOTHING_STATED,
    ) -> None:
        self.source = source
        self.module = module
        self.reading = reading.Reading(source)
        self.vocabulary = vocabulary
        self.steps: Optional[step_calls.StepCalls] = None
        self.losses = losses._replace(ignored={*losses.ignored, *stated.ignored_by(criterion)})
        self.padding = padding.Padding(vocabulary.pad, module)
        self.padding.loss_known = not (
            module is None and criterion is None and vocabulary.tokenizer is None
        )
        self.agreement = agreement.Agreement(vocabulary, module, criterion)
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
        self.maps = label_maps.LabelMaps()
        self.texts = row_texts.RowTexts()
        self.given = given.Given()
        self.given_answers = given_answers.GivenAnswers(vocabulary)
        self.places = places.Places(vocabulary, module)
        self.looks = batch_looks.BatchLooks(vocabulary, module, losses)
        self.relations = relations.Relations()
        self.classes: Optional[Dict[str, Any]] = None
        """Those beyond the model's output."""
        self.whole: Foreign = None
        """The dataset with the columns that a Trainer removes."""
        self.more: List[Dict[str, Any]] = []
        """Relations that a model was needed for."""

    def add(self, raw: Foreign) -> None:
        batch = views.of(raw)
        self._step(raw)
        tokens = self._labelled(documents.tokens_of(batch))
        if self.first is None:
            self.first, self.tokens = raw, tokens
        row = rows.place_of(self.source.items, self.reading.rows)
        self.pairs.add(raw if self.source.by_row else batch, row)
        if len(self.shown) < self.show:
            self._show(batch, tokens, row)
        self.inputs.add(batch)
        self.maps.add(batch)
        observing.attempt(lambda: self.agreement.add(batch, tokens, row), None)
        observing.attempt(lambda: self.given.add(batch, tokens is not None, row), None)
        observing.attempt(lambda: self.places.add(batch, tokens, row), None)
        observing.attempt(lambda: self.given_answers.add(raw, tokens, row), None)
        self.looks.add(raw, batch, tokens, row)
        if self.source.by_row:
            self.texts.add(raw, row)
        if tokens is None or tokens.foreign_labels:
            self.other_labels.add(batch, row)
        if self.source.kind == "loader":
            self.mixing.add(batch, tokens, row)
            self.batches.append(raw)
        if tokens is None:
            self.documents += self.chats.documents(raw, row)
            return
        self.padding.add(tokens, row)
        self.relations.count("border nowhere", documents.lacks_borders(tokens), row)
        self.documents += documents.documents(tokens, row, self.vocabulary.pad)

    def _labelled(self, tokens: Optional[documents.Tokens]) -> Optional[documents.Tokens]:
        """The tokens with the labels that the loss uses."""
        own = self.losses.own
        absent = tokens is not None and tokens.labels is None and not tokens.foreign_labels
        if own is not None and tokens is not None and absent:
            tokens = tokens._replace(labels=own.labels_of(tokens.ids))
        return documents.without(tokens, self.losses.ignored)

    def _begins_otherwise(self) -> bool:
        """Whether documents may begin without the tokenizer's token: the model was not trained
        before, or states another one for the beginning, or none."""
        bos = observing.attribute(observing.attribute(self.module, "config"), "bos_token_id")
        trained = observing.attempt(lambda: initial_weights.is_trained(self.module), False)
        return bos is None or bos != self.vocabulary.bos or not trained

    def _step(self, raw: Foreign) -> None:
        """What a step on the batch shows of the losses counts in place of what the source
        states."""
        steps = self.steps
        if steps is not None:
            observing.attempt(lambda: steps.add(raw), None)
        if steps is not None and steps.classified:
            self.losses = self.losses._replace(ignored=steps.left_out, padding_ignored=False)
        if steps is not None and steps.own is not None:
            self.losses = self.losses._replace(own=steps.own)
        if steps is not None and steps.ctc:
            self.losses = self.losses._replace(blank=int(steps.ctc[0].get("blank", 0)))
        self.padding.ignored = self.losses.padding_ignored
        of_step = steps is not None and bool(steps.ctc)
        if self.agreement.blank is None and (of_step or agreement.has_lengths(raw)):
            self.agreement.blank = self.losses.blank

    def record(self) -> Dict[str, Any]:
        record = self.reading.record()
        each = list(self.documents)
        if each:
            record["lengths"] = labels.lengths(each)
            record["uncut"] = observing.attempt(self._uncut, None)
            mask = observing.attribute(self.vocabulary.tokenizer, "mask_token_id")
            record["labels"] = labels.labels(each, mask if isinstance(mask, int) else None)
            prompt = templates.prompt_of(self.vocabulary)
            marker = prompt.marker if prompt is not None else []
            otherwise = self._begins_otherwise() or any(
                row_ends.contains(one.ids, marker) for one in each
            )
            record["starts"] = row_ends.starts(each, self.vocabulary, otherwise)
            record["padding"] = self.padding.record() if self.padding.rows else None
            self._add_answers(record, each, prompt)
        if record.get("labels") is None:
            record["labels"] = self.other_labels.record()
        if record["labels"] is not None:
            record["labels"]["dropped"] = observing.attempt(lambda: rows.dropped(self.source), 0)
        if not self.pairs.scored:
            observing.attempt(self._add_pairs_of_dataset, None)
        record["pairs"] = self.pairs.record()
        record["rendered"] = self.chats.record()
        record["inputs"] = self.inputs.record()
        record["pace"] = self.pace
        record["agreement"] = observing.attempt(self._agreement, None)
        record["rereading"] = observing.attempt(self._rereading, None)
        record["boxes"] = observing.attempt(
            lambda: boxes.of_samples(self.source, self.module), None
        )
        record["maps"] = observing.attempt(self.maps.record, None)
        if record["maps"] is not None and 255 in self.losses.ignored:
            record["maps"]["levels"] = 0  # 255 is no class, so that the others may be 0 alone
        lines = bool(rows.place_of(self.source.items, 0))
        texts = self.texts.record()
        record["texts"] = {**texts, "lines": lines} if texts else None
        record["relations"] = [{**each, "lines": lines} for each in self._relations(record)]
        if self.source.kind == "loader":
            record["mixing"] = self.mixing.record(self._own_order())
            dataset = observing.attribute(self.source.items, "dataset")
            record["mixing"]["streamed"] = isinstance(dataset, torch.utils.data.IterableDataset)
            record["epochs"] = observing.attempt(lambda: epoch_orders.of_source(self.source), None)
            record["workers"] = observing.attempt(self._workers, None)
            record["seeds"] = observing.attempt(lambda: seeds.of_workers(self.source), None)
        return record

    def _relations(self, record: Dict[str, Any]) -> List[Dict[str, Any]]:
        found = self.relations.records() + self.more
        looks = [self.given.records, self.places.records, self.given_answers.records]
        looks += [self.steps.records] if self.steps is not None else []
        looks += [lambda: self.looks.records(self.documents)]
        looks += [lambda: whole_chats.trained(self.documents, self.vocabulary)]
        evaluated = self.source.name == "eval"
        looks += [lambda: graphs.of_batches(self.batches, evaluated=evaluated)]
        if self.reading.ended not in ("error", "hang"):  # what raised or hung is not read again
            again = (self.source, self.batches, self.module, self.vocabulary)
            looks += row_looks.of_source(*again)
        empty = [d for d in self.documents if d.labels is not None and not bool(d.trained.any())]
        if empty:
            looks += [lambda: markers_held.absent(self.source, empty, self.vocabulary)]
        if len(empty) == len(self.documents) and self.losses.of_answers:
            looks += [lambda: markers_held.unmarked(empty, self.vocabulary)]
        for look in looks:
            found += observing.attempt(look, [])
        return found

    def _agreement(self) -> Optional[Dict[str, Any]]:
        """What was counted, and whether the targets follow images that are turned."""
        record = self.agreement.record()
        if record is not None:
            known = any(each["beyond"] for each in record["indices"])
            found = [] if known or self.steps is None else self.steps.indices()
            classes = [] if self.classes is None else [self.classes]
            named = any(each["kind"] == "classes" for each in found)
            record["indices"] += found + (classes if not named else [])
            of_steps = agreement.of_ctc(self.steps.ctc, record["blank"]) if self.steps else {}
            if of_steps and (not record["targets"] or of_steps["longer"] > record["longer"]):
                record.update(of_steps)  # a model has fewer outputs than the batch has frames
        if record is not None and self.source.name == "train":
            record.update(observing.attempt(lambda: turns.of_samples(self.source), {}))
        return record

    def _rereading(self) -> Optional[Dict[str, Any]]:
        return rereading.of_rows(
            self.source, self.reading.ended == "complete" and not self._own_order()
        )

    def _own_order(self) -> bool:
        names = ("batch_sampler", "sampler")
        samplers = [observing.attribute(self.source.items, name) for name in names]
        return mixing.has_own_order(samplers)

    def _add_pairs_of_dataset(self) -> None:
        """A collator may join the columns of chosen and rejected answers."""
        dataset = rows.dataset_of(self.source) if self.whole is None else self.whole
        names = observing.attribute(dataset, "column_names") or ()
        if any(str(name).startswith("chosen") for name in names):
            made = pairs.Pairs()
            for number in range(min(len(dataset), max(1, self.reading.rows))):
                made.add(targets.as_batch(dataset[number]), number)
            self.pairs = made if not self.pairs.pairs else self.pairs
            self.pairs.scored, self.pairs.swapped = made.scored, made.swapped

    def _uncut(self) -> Optional[Dict[str, Any]]:
        """Lengths of the rows of the loader's dataset, where they are still texts or chats."""
        dataset = rows.dataset_of(self.source) if self.source.kind == "loader" else None
        if dataset is None or not len(dataset):
            return None
        first: Foreign = dataset[0]
        if not containers.is_mapping(first) or "input_ids" in first:
            return None
        apart = chats.Chats(self.vocabulary)
        made = [apart.documents(dataset[n], n) for n in range(min(len(dataset), self.reading.rows))]
        return labels.lengths([each for row in made for each in row])

    def _add_answers(
        self,
        record: Dict[str, Any],
        each: List[documents.Document],
        prompt: Optional[templates.Prompt],
    ) -> None:
        """What is said of answers, where the labels are tokens of the row."""
        own = (record["labels"] or {}).get("objective", "next token") == "next token"
        if own:
            marker = prompt.marker if prompt is not None else []
            record["stops"] = row_ends.stops(each, self.vocabulary, marker)
            record["markers"] = templates.markers(each, self.vocabulary, prompt)

    def _show(self, batch: Foreign, tokens: Optional[documents.Tokens], row: int) -> None:
        most = self.show - len(self.shown)
        name = self.source.name
        if tokens is None and self.source.by_row:
            made = self.chats.documents(batch, row)
            tokens = chats.as_tokens(made[0]) if made else None
        samples = observing.attempt(
            lambda: samples_shown.of_batch(batch, tokens, self.vocabulary, name, row, most), []
        )
        lines = bool(rows.place_of(self.source.items, 0))
        self.shown += [{**each, "lines": lines} for each in samples]

    def _workers(self) -> Optional[Dict[str, Any]]:
        return workers.twins(self.source, self.batches)
