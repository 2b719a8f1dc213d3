"""A rule on networks of graphs: batches, pooling and seeds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.naming import words
from doctor.checks.script.objects import last_definition
from doctor.checks.script.rendering import expanded, lines, render, texts_in
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Span, Value

POOL = re.compile(r"(?:\w+\.)*global_(?:add|mean|max|sum)_pool\((?P<x>[\w.]+),")
POOLS = ("global_", "scatter", "segment", "readout", "Aggregation", "SumPooling", "AvgPooling",
         "Set2Set", "to_dense_batch", "ptr", "SAGPooling", "TopKPooling")  # fmt: skip
LOADERS = ("torch_geometric.loader.DataLoader", "torch_geometric.data.DataLoader")


def graphs(reading: Training) -> Iterator[Match]:
    if not reading.imports_from("torch_geometric"):
        return
    yield from _layer_behind_pool(reading)
    yield from _one_mean(reading)
    yield from _one_softmax(reading)
    yield from _seeds(reading)
    yield from _edges_in_rows(reading)
    yield from _held_out_edges(reading)
    yield from _same_negatives(reading)
    yield from _degrees(reading)


GROWING = re.compile(r"\w*deg\w*(?:\.pow\(0?\.5\)|\.sqrt\(\)|\*\*0?\.5)|torch\.sqrt\(\w*deg\w*\)")


def _degrees(reading: Training) -> Iterator[Match]:
    """d = deg.pow(0.5) and d[row] * d[col]: the weights grow with the degrees."""
    for line in reading.cached(lines) if reading.mentions("deg") else ():
        name = re.escape(line.target)
        if not GROWING.fullmatch(line.text):
            continue
        product = re.compile(rf"\({name}\[(\w+)\]\*(?:\w+\*)?{name}\[(?!\1\])\w+\]\)")
        others = texts_in(reading, line.scope)
        if any(product.search(text) for text in others) and not any("1/" in t for t in others):
            yield Match(
                line.span,
                "edges weigh the more the more neighbours their nodes have",
                fix="deg.pow(-0.5)",
            )


def _held_out_edges(reading: Training) -> Iterator[Match]:
    """Messages pass along data.edge_index, of which a part is held out to be predicted."""
    whole = _split_edges(reading)
    for number in reading.backwards if whole else ():
        loop = reading.calls[number].loops[-1:]
        for n in reading.by_loop.get(loop[0], ()) if loop else ():
            call = reading.calls[n]
            given = {v.name for v in call.args if v.kind == "name"}
            looks = call.method in ("negative_sampling", "size", "to", "decode", "decoder")
            if (
                given & whole
                and len(call.args) > 1
                and not looks
                and not reading.is_evaluation(call)
            ):
                name = sorted(given & whole)[0]
                yield Match(call.span, f"{name} holds the edges that are to be predicted")
                return


def _split_edges(reading: Training) -> set[str]:
    """The edges of which some are for test: of RandomLinkSplit, or by a permutation."""
    found = set()
    for number, split in reading.numbered(reading.methods("RandomLinkSplit")):
        for call in reading.calls:
            same = call.receiver_call == number or (call.name and call.name in split.targets)
            if same and call.args and call.args[0].kind == "name" and len(call.targets) != 1:
                data = call.args[0].name
                again = [a for a in reading.assignments if a.target == data
                         and a.position > reading.number(call)]  # fmt: skip
                if not again:
                    found.add(f"{data}.edge_index")
    parts = [
        (m["edges"], line.target)
        for line in reading.cached(lines)
        if (m := re.fullmatch(r"(?P<edges>[\w.]*edge_index)\[:,\w+\[[\w.]*:[\w.]*\]\]", line.text))
    ]
    for edges in {e for e, _ in parts}:
        if any("test" in t or "val" in t for e, t in parts if e == edges):
            found.add(edges)
    return found


def _same_negatives(reading: Training) -> Iterator[Match]:
    """negative_sampling() before the loop that trains, once for all epochs."""
    for call in reading.named("negative_sampling"):
        if call.loops or len(call.targets) != 1 or reading.is_evaluation(call):
            continue
        name = call.targets[0]
        if re.search("test|val|eval", name) or len(reading.assigned_to(name, call.scope)) > 1:
            continue
        for n in reading.backwards:
            loops = reading.calls[n].loops
            used = any(
                name in {v.name for v in reading.calls[m].args}
                for m in (reading.by_loop.get(loops[-1], ()) if loops else ())
                if reading.calls[m].scope == call.scope
            )
            if used:
                yield Match(
                    call.span, f"{name} are the same in all epochs: draw them in the loop", "warn"
                )
                return


def _layer_behind_pool(reading: Training) -> Iterator[Match]:
    """x = global_add_pool(x, batch); x = self.conv2(x, edge_index)."""
    table = reading.cached(lines)
    for line in table:
        if not POOL.match(line.text):
            continue
        layer = re.compile(
            rf"(?:[\w.]+\()?(?:self\.)?\w+\({re.escape(line.target)},(?:\w+\.)*edge_index\b"
        )
        between = [a for a in table if a.scope == line.scope and a.span.order > line.span.order]
        for later in between:
            if later.target == line.target and not layer.search(later.text):
                break
            if layer.search(later.text):
                message = f"{line.target} has a row per graph here, and edge_index counts nodes"
                yield Match(later.span, message)
                return


def _one_mean(reading: Training) -> Iterator[Match]:
    """x.mean(dim=0) of the nodes of a batch of graphs."""
    loaders = [c for c in reading.calls if c.name in LOADERS]
    batched = [c for c in loaders if _size(c) != 1]
    called = "\n".join(reading.by_method)
    if not batched or any(word in called for word in POOLS):
        return
    for scope in reading.functions_by_name.get("forward", ()):
        own = reading.calls_in(scope)
        layers = any(
            "edge_index" in {v.name.rpartition(".")[2] for v in c.args} for c in own
        )  # fmt: skip
        for call in own if layers else ():
            if call.method not in ("mean", "sum", "amax", "max") or call.name.startswith("numpy"):
                continue
            given = call.args[1:] if call.name.startswith("torch.") else call.args
            axis = call.keywords.get("dim") or (given[0] if given else None)
            if axis is not None and axis.literal == 0 and axis.literal is not False:
                message = "the nodes of all graphs of a batch are pooled into one row"
                yield Match(call.span, message)
                return


def _size(call: Call) -> object:
    value = call.given("batch_size", 1)
    return 1 if value is None else value.literal


def _one_softmax(reading: Training) -> Iterator[Match]:
    """softmax(gate, dim=0) of nodes that global_add_pool(x, batch) pools graph by graph."""
    for call in reading.named("softmax"):
        library = call.name.startswith("torch_geometric.")
        axis = call.given("dim", int(call.name.startswith("torch.")))
        if library or axis is None or axis.literal != 0 or axis.literal is False:
            continue
        others = reading.calls_in(call.scope)
        pools = [c for c in others if re.fullmatch(r"global_(?:add|mean|max)_pool", c.method)
                 and len(c.args) > 1]  # fmt: skip
        names = {name for name in call.targets} | {f"@{reading.number(call)}"}
        for pool in pools:
            read = {*pool.args[0].all_names, *(f"@{n}" for n in pool.args[0].calls)}
            if names & read and {"batch"} & {*words(pool.args[1].name)}:
                message = "the softmax runs over the nodes of all graphs of the batch"
                fix = "torch_geometric.utils.softmax(gate, batch)"
                yield Match(call.span, message, fix=fix)
                break


def _seeds(reading: Training) -> Iterator[Match]:
    """A loss of all nodes of a NeighborLoader's batch, neighbours included."""
    made = reading.named("NeighborLoader", "NeighborSampler", "HGTLoader")
    loops = {
        loop: target
        for call in made
        for loop in reading.loops_of(call)
        for target in [reading.loops[loop].target]
        if target
    }
    for number, _ in loss_calls(reading):
        call = reading.calls[number]
        target = next((loops[n] for n in call.loops if n in loops), "")
        if not target or len(call.args) < 2 or reading.is_evaluation(call):
            continue
        if not any(n in reading.backward_numbers for n in reading.by_loop[call.loops[-1]]):
            continue
        texts = [_whole(reading, value, call) for value in call.args[:2]]
        if any(re.search(r"batch_size|\[|mask|n_id|input_id|seed|root", t) for t in texts):
            continue
        if re.fullmatch(rf"{target}\.y(?:\.\w+\(\w*\))*", texts[1]):
            yield Match(
                call.span,
                f"the loss counts neighbours, too: only {target}.batch_size nodes are seeds",
            )


def _whole(reading: Training, value: Value, call: Call) -> str:
    text = expanded(reading, value, call, 3)
    if value.kind == "name":
        text = " ".join(
            [text, *(render(reading, v) for v in last_definition(reading, value.name, call))]
        )
    return text if "." in text.split(" ")[0] or value.kind != "name" else text.partition(" ")[0]


def _edges_in_rows(reading: Training) -> Iterator[Match]:
    """edge_index=torch.tensor([[0, 1], [1, 2], [2, 0]]): a pair in each row."""
    for value, span in _edge_indices(reading):
        made = reading.call_of(value)
        if made is None or made.name not in ("torch.tensor", "torch.LongTensor") or not made.args:
            continue
        rows = made.args[0].items if made.args[0].kind == "list" else ()
        columns = re.search(r"\['[^']+','[^']+'\]\.(?:values|to_numpy\(\))$", _text(reading, made))
        if columns or (
            len(rows) > 2 and all(row.kind == "list" and len(row.items) == 2 for row in rows)
        ):
            yield Match(
                span, "edge_index has a pair in each row: it takes two rows, of sources and ends"
            )


def _text(reading: Training, made: Call) -> str:
    """What torch.tensor() is given, as text."""
    return render(reading, made.args[0])


def _edge_indices(reading: Training) -> Iterator[tuple[Value, Span]]:
    for line in reading.cached(lines):
        if line.target.rpartition(".")[2] == "edge_index":
            transposed = any(
                later.target == line.target
                and re.search(r"\.t\(\)|\.T\b|transpose|permute", later.text)
                for later in reading.cached(lines)
            )
            passed = any(
                re.search(rf"\b{re.escape(line.target)}\.(?:t\(|T\b|transpose)", render(reading, v))
                for v, _, _ in reading.expressions
            )
            if not transposed and not passed:
                yield line.value, line.span
    for call in reading.calls:
        if call.method == "Data" and "edge_index" in call.keywords:
            yield call.keywords["edge_index"], call.span


RULES = (
    Rule(
        code="SCR405",
        slug="batch-of-graphs",
        title="A batch of graphs is pooled graph by graph, and sampled nodes count once",
        severity="fail",
        find=graphs,
        why="PyG joins the graphs of a batch into one: without the vector batch their nodes mix. "
        "A NeighborLoader adds neighbours to its seeds, of other splits and with cut "
        "neighbourhoods.",
        fires=(
            "conv(global_add_pool(x, batch), edge_index)",
            "x.mean(dim=0), or softmax(gate, dim=0), of the nodes of a batch of graphs",
            "loss(out, batch.y) of a NeighborLoader's batch, without [:batch.batch_size]",
            "edge_index of rows with a pair each",
            "model.encode(x, data.edge_index) beside a split of its edges",
            "negative_sampling() once, before the loop (a warning)",
        ),
        fix="global_mean_pool(x, batch) behind the last layer; "
        "out[:batch.batch_size], batch.y[:batch.batch_size]; torch.tensor(pairs).t().contiguous().",
        sources=("pytorch-geometric-7306", "pytorch-geometric-7931"),
        needs=("edge_index", "NeighborLoader", "negative_sampling", "RandomLinkSplit"),
    ),
)
