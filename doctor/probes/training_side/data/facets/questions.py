"""The general questions to a target's splits: what one of them that raises finds is left out."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...foreign import Foreign, observing
from ..targets import Source
from . import (
    alone,
    captions,
    other_kinds,
    place_orders,
    place_pairs,
    row_pairs,
    statements,
    tables,
    two_tables,
)

Found = List[Dict[str, Any]]


class Seen(NamedTuple):
    """A split as each question sees it; None where it cannot."""

    source: Source
    table: Optional[tables.Table]
    side: Optional[row_pairs.Side]
    worded: Optional[row_pairs.Side]
    places: Optional[place_pairs.Places]


def of_splits(
    sources: Sequence[Optional[Source]], batches: Mapping[str, Sequence[Foreign]], module: Foreign
) -> Found:
    """Relations of targets, inputs and statements of train and eval. What raised or hung has no
    batches, and is not read again."""
    seen = [seen_of(each, batches[each.name]) for each in sources if each and each.name in batches]
    looks: List[Callable[[], Found]] = []
    if len(seen) == 2:
        one, two = seen
        looks += [
            partial(row_pairs.of_two, one.side, two.side),
            lambda: two_tables.of_two(
                (one.table, two.table),
                one.side,
                two.side,
                other_kinds.stated(one.source, two.source),
            ),
            partial(place_pairs.of_two, one.places, two.places),
        ]
    for each in seen:
        looks += [
            partial(row_pairs.of_split, each.side),
            partial(captions.of_split, each.worded),
            partial(place_pairs.of_split, each.places, each.source.name),
            partial(place_orders.of_split, each.places, each.source),
            partial(alone.of_table, each.source.name, each.table),
            partial(statements.of_split, each.source, each.table, module),
        ]
    return once([record for look in looks for record in observing.attempt(look, [])])


def seen_of(source: Source, batches: Sequence[Foreign]) -> Seen:
    table = observing.attempt(partial(tables.of_source, source, batches), None)
    side = observing.attempt(partial(row_pairs.side_of, source.name, table), None)
    worded = observing.attempt(partial(captions.side_of, source.name, table), None)
    places = observing.attempt(partial(place_pairs.of_source, source), None)
    return Seen(source, table, side, worded, places)


def once(found: Found) -> Found:
    """One record of a kind, the first one, which says most; but the coverage of each split."""
    kept: Dict[Tuple[str, str], Dict[str, Any]] = {}
    for each in found:
        covers = each["kind"] == row_pairs.COVERED
        kept.setdefault((each["kind"], each["fields"][0] if covers else ""), each)
    return list(kept.values())
