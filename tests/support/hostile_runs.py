"""Hostile inputs for the commands that compare nodes, read data, or start a command of the user."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile_texts import REPORTS, SCRIPT, TEXTS, TOKENS, Case, executes, program, safetensors

from doctor.report.formats.table import RENDERERS

LOUD = ("line", "escape", "html", "secret")
"""Kinds of text that are tried in many formats."""
IN_NAMES = [kind for kind in TEXTS if kind not in ("nul", "long", "surrogate", "secret")]


def runs(healthy: dict[str, Any]) -> Iterator[Case]:
    yield from _nodes(healthy)
    yield from _ledgers(healthy)
    yield from _fleets()
    yield from _rows()
    yield from _rehearsals()
    yield from _factories()
    yield from _merges()


def named(text: str, length: int = 150) -> str:
    """The text as the name of a file."""
    return text.replace("/", ":").replace("\0", "")[:length]


def _node(healthy: dict[str, Any], name: str, text: str) -> bytes:
    """A node's facts; everything that a machine of others reports has the text."""
    changed = json.loads(json.dumps(healthy))
    changed["torch"]["unread"] = {text: text}
    changed["driver"]["nvml"] = {"type": "Ended", "how": "error", "detail": text}
    changed["interpreter"]["chosen"] = text
    changed["host"]["name"] = name
    changed["host"]["environment"] = {"NCCL_DEBUG": text, f"NCCL_{text}": "1"}
    changed["smoke"]["stages"][0]["name"] = text
    changed["places"][0]["path"] = text
    return json.dumps(changed).encode()


def _nodes(healthy: dict[str, Any]) -> Iterator[Case]:
    good = json.dumps(healthy).encode()
    for kind, text in TEXTS.items():
        files = {"f/a.json": _node(healthy, "gpu-1", text), "f/b.json": good}
        for form in RENDERERS if kind in LOUD else ("console",):
            yield Case(f"nodes {kind} {form}", ("compare", "f", "--format", form), files)
        if kind not in IN_NAMES:
            continue
        files = {f"f/{named(text)}.json": good, "f/b.json": _node(healthy, text, "x")}
        yield Case(f"nodes named {kind}", ("compare", "f"), files)
        yield Case(f"nodes expected {kind}", ("compare", "f", "--nodes-from", text), files)
        lists = {"names": text.encode(), "racks": f"rack{text}: gpu-[1-9]\n{text}: a".encode()}
        words = ("compare", "f", "--nodes-from", "names", "--topology", "racks")
        yield Case(f"nodes listed {kind}", words, files | lists)
    for name, data in {
        "deep": b"[" * 100_000,
        "nul": b"\0" * 4096,
        "names": b"gpu-[1-999999999999]",
        "many": b"[1-9999]" * 9,
    }.items():
        yield Case(f"nodes file {name}", ("compare", "a.json", "b.json"),
                   {"a.json": data, "b.json": good})  # fmt: skip
        yield Case(f"nodes from {name}", ("compare", "b.json", "--nodes-from", "names"),
                   {"names": data, "b.json": good})  # fmt: skip
    yield Case("nodes link", ("compare", "f"), {"f/b.json": good}, {"f/a.json": "/dev/zero"})
    yield Case("nodes loop", ("compare", "f"), {"f/b.json": good}, {"f/a.json": "a.json"})


def _ledgers(healthy: dict[str, Any]) -> Iterator[Case]:
    good = json.dumps(healthy).encode()
    for kind, text in TEXTS.items():
        sighting = {
            **{"kind": "gpu", "key": f"gpu-{text}", "time": "2026-10-02T00:00:00Z"},
            **{"node": text, "outcome": "return", "codes": [text]},
        }
        record = json.dumps({"key_id": text, "sightings": [sighting]}).encode()
        files = {"l/1.doctor.json": record, "a.json": good}
        ours = ("l/*", "home/.config/doctor/ledger.key")
        yield Case(f"ledger {kind}", ("ledger", "list", "l"), files)
        for form in ("json", "jsonl"):
            yield Case(f"ledger {kind} {form}", ("ledger", "list", "l", "--format", form), files)
        if kind not in ("nul", "surrogate", "long"):
            words = ("ledger", "show", "l", f"gpu-{text}")
            yield Case(f"ledger show {kind}", words, files, may_write=ours)
        yield Case(f"ledger compared {kind}", ("compare", "a.json", "--ledger", "l"), files,
                   may_write=ours)  # fmt: skip
        if kind in IN_NAMES:
            torn = {f"l/{named(text)}.doctor.json": b"{"}
            yield Case(f"ledger named {kind}", ("ledger", "list", "l"), torn)
    late = {"kind": "gpu", "key": "gpu-1", "time": "2026-10-02T00:00:00Z\n", "node": "x"}
    record = json.dumps({"key_id": "x", "sightings": [late]}).encode()
    yield Case("ledger time", ("ledger", "show", "l", "gpu-1"), {"l/1.doctor.json": record})
    yield Case(
        "ledger link", ("ledger", "list", "l"), {"l/x": b""}, {"l/1.doctor.json": "/dev/zero"}
    )


def _fleets() -> Iterator[Case]:
    alone = ("--nodes", "1", "--node-rank", "0", "--address", "127.0.0.1")
    error = "RuntimeError: CUDA error: device-side assert triggered"
    for kind, text in TEXTS.items():
        log = f"step 1 loss 2.0\n{text} {error} {text}\n".encode("utf-8", "surrogatepass")
        yield Case(f"fleet triage {kind}", ("fleet", "triage", "t.log", *alone), {"t.log": log})
        files = {"c/model.safetensors": safetensors(text, "F32", [2, 2])}
        words = ("fleet", "scan", "c", "--deep", *alone)
        for form in REPORTS if kind in LOUD else ("console",):
            yield Case(f"fleet scan {kind} {form}", (*words, "--format", form), files)
        if kind in IN_NAMES:
            path = f"c{named(text)}.safetensors"
            words = ("fleet", "scan", path, *alone)
            yield Case(f"fleet scan named {kind}", words, {path: safetensors("w", "F32", [2])})
            words = ("fleet", "scan", "c", "--address", text, "--nodes", "2", "--node-rank", "1")
            yield Case(f"fleet address {kind}", (*words, "--deadline", "1s"), files)
    for name, files in {
        "pickle": {"c/pytorch_model.bin": executes, "c/optimizer.pt": executes},
        "header": {"c/model.safetensors": b"\xff" * 4_000},
        "deep": {"c/model.safetensors": (50_000).to_bytes(8, "little") + b"[" * 50_000},
    }.items():
        yield Case(f"fleet scan {name}", ("fleet", "scan", "c", "--deep", *alone), files)
    link = {"c/model.safetensors": "/dev/zero"}
    yield Case("fleet scan link", ("fleet", "scan", "c", "--deep", *alone), {"c/x": b""}, link)


def _rows() -> Iterator[Case]:
    """Every text in rows of its own: reading rows starts an interpreter, which takes a second."""
    rows: list[Any] = []
    for text in TEXTS.values():
        asked, answered = {"role": "user", "content": text}, {"role": text, "content": text}
        rows += [{"messages": [asked, answered]}, {text: text, "text": [text], "labels": {text: 1}}]
    data = "\n".join(map(json.dumps, rows)).encode()
    for form in ("console", "json", "html", "github", "markdown"):
        words = ("data", "r.jsonl", "--show", "40", "--format", form)
        yield Case(f"rows {form}", words, {"r.jsonl": data})
    for kind in ("line", "escape"):
        path = f"r{named(TEXTS[kind])}.jsonl"
        yield Case(f"rows named {kind}", ("data", path), {path: data})
    for name, data in {
        "deep.jsonl": b'{"text": ' + b"[" * 100_000,
        "wide.jsonl": b'{"text": "' + b"a" * 5_000_000 + b'"}',
        "nul.txt": b"\0" * 9_000,
        "bad.parquet": b"PAR1" + b"\xff" * 4_000 + b"PAR1",
        "keys.csv": b"=cmd|' /C x'!A1,\x1b[31m\n1,2\n" * 40,
        "number.jsonl": b'{"input_ids": [1e999, -1, 99999999999999999999]}\n' * 9,
    }.items():
        yield Case(f"data {name}", ("data", name, "--show", "2"), {name: data})
    yield Case("data pickle", ("data", "d"), {"d/state.pkl": executes, "d/data.pt": executes})
    yield Case("data link", ("data", "d"), {"d/b.txt": b"a\n"}, {"d/a.txt": "/dev/zero"})
    config = {"tokenizer_class": "T", "auto_map": {"AutoTokenizer": ["t.T", "t.T"]}}
    yield Case(
        "data tokenizer with code",
        ("data", "r.jsonl", "--tokenizer", "k"),
        {
            "k/tokenizer_config.json": json.dumps(config).encode(),
            "k/config.json": b'{"model_type": "x", "auto_map": {"AutoConfig": "t.T"}}',
            "k/t.py": _python,
            "r.jsonl": b'{"text": "a"}\n',
        },
    )


def _python(mark: Path) -> bytes:
    return f"open({str(mark)!r}, 'w')\n".encode()


def _rehearsals() -> Iterator[Case]:
    text = "".join(TEXTS[kind] for kind in ("line", "return", "escape", "bidi", "secret", "html"))
    shell = (
        f"cat text; cat text >&2; echo x > {{output}}/'{named(text.replace(chr(39), ''))}'; exit 1"
    )
    for form in ("console", "json", "html"):
        yield Case(
            f"rehearsal {form}",
            ("rehearse", "--format", form, "--", "sh", "-c", shell),
            {"text": f"{text}\nRuntimeError: {text}".encode()},
            may_write=("doctor-rehearsal/*",),
        )
    for name, shell in {
        "mark": "touch ../mark",
        "work": "echo x > victim; rm victim; mkdir d; ln -s / e",
        "home": "mkdir -p $HOME; touch $HOME/x; chmod 777 victim; mv victim v",
        "link": "ln -s $PWD/victim {output}/v; echo x > {output}/v",
    }.items():
        yield Case(f"rehearsal writes {name}", ("rehearse", "--", "sh", "-c", shell),
                   {"victim": b"mine"}, may_write=("doctor-rehearsal/*",))  # fmt: skip


def _factories() -> Iterator[Case]:
    script = "import torch\nfrom x import {0}\nmodel = torch.nn.Linear(2, 1)  # {1}\n{2}"
    for kind in IN_NAMES:
        text = TEXTS[kind]
        source = script.format("y", text.replace("\n", " "), SCRIPT) + f"print({text!r})\n"
        words = ("init", "--factory-for")
        yield Case(f"factory {kind}", (*words, "t.py", "--stdout"), {"t.py": source.encode()})
        path = f"t{named(text)}.py"
        yield Case(f"factory named {kind}", (*words, path), {path: source.encode()},
                   may_write=("*_preflight.py",))  # fmt: skip
    files = {"t.py": SCRIPT.encode(), "o": b"mine"}
    yield Case("factory link", ("init", "--factory-for", "t.py"), files, {"t_preflight.py": "o"})
    yield Case("factory module", ("init", "--factory-for", "t.py"),
               {"t.py": _python, "torch.py": _python}, may_write=("*_preflight.py",))  # fmt: skip


def _merges() -> Iterator[Case]:
    weight = safetensors("model.layers.0.q_proj.weight", "F32", [2, 2])
    lora: Callable[[str], str] = "base_model.model.model.layers.0.q_proj.lora_{}.weight".format
    adapter = safetensors(lora("A"), "F32", [1, 2])
    for kind, text in TEXTS.items():
        settings = {
            **{"r": 1, "lora_alpha": 2, "base_model_name_or_path": text, "peft_type": text},
            **{
                "target_modules": text,
                "rank_pattern": {text: 2},
                "alpha_pattern": {f"({text}+)+": 1},
            },
        }
        files = {
            "a/adapter_config.json": json.dumps(settings).encode(),
            "a/adapter_model.safetensors": adapter,
            "m/model.safetensors": weight,
            "b/model.safetensors": weight,
        }
        words = ("scan", "m", "--merged-from", "b", "--adapter", "a")
        yield Case(f"merge {kind}", words, files)
        yield Case(f"adapter {kind}", ("scan", "m", "--adapter", "a", "--format", "html"), files)
    for flag in ("--merged-from", "--equals", "--adapter"):
        files = {"m/model.safetensors": weight, "b/pytorch_model.bin": executes}
        yield Case(f"pickle {flag}", ("scan", "m", flag, "b"), files)
    files = {
        **{"m/model.safetensors": weight, "m/optimizer.pt": executes, "m/scheduler.pt": executes},
        **{"m/rng_state.pth": executes, "m/trainer_state.json": b"[" * 50_000, "p": program},
    }
    yield Case("continue pickles", ("scan", "m", "--continue"), files)
    secret = json.dumps({"r": 1, "base_model_name_or_path": f"https://u:{TOKENS[3]}@h/x"})
    files = {"a/adapter_config.json": secret.encode(), "a/adapter_model.safetensors": adapter}
    yield Case("adapter address", ("scan", "a"), files)
