"""Hostile inputs for every command: scripts, logs, facts, job files, arguments, places."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

from hostile_checkpoints import checkpoints
from hostile_runs import runs
from hostile_texts import COLLECT_ENV, REPORTS, SCRIPT, TEXTS, TOKENS, Case, executes, program


def cases(facts: bytes) -> Iterator[Case]:
    """All of them; `facts` is a healthy machine's file."""
    yield from _facts(json.loads(facts))
    yield from runs(json.loads(facts))
    yield from _logs()
    yield from _scripts()
    yield from checkpoints()
    yield from _job_files()
    yield from _arguments()
    yield from _records()
    yield from _pasted()
    yield from _places()


FIELDS: tuple[tuple[str | int, ...], ...] = (
    ("driver", "version"),
    ("gpus", 0, "name"),
    ("host", "name"),
    ("host", "release"),
    ("interpreter", "path"),
    ("torch", "version"),
    ("places", 0, "path"),
    ("smoke", "stages", 0, "name"),
    ("smoke", "parameters", 0, "name"),
    ("driver", "nvml", "detail"),
    ("job", "working_dir"),
)


def _facts(healthy: dict[str, Any]) -> Iterator[Case]:
    for kind, text in TEXTS.items():
        changed = json.loads(json.dumps(healthy))
        for path in FIELDS:
            place = changed
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = f"{place[path[-1]]}{text}"
        changed["job"]["arguments"] = ["--password", TOKENS[3], "--hub_token=" + TOKENS[0]]
        data = {"f.json": json.dumps(changed).encode()}
        formats = REPORTS if kind in ("line", "escape", "html") else ("console", "html")
        for name in formats:
            words = ("report", "f.json", "--format", name, "--inject", "GPU001")
            yield Case(f"facts {kind} {name}", words, data)
        yield Case(f"prescribe {kind}", ("prescribe", "--facts", "f.json"), data)
        only = json.loads(json.dumps(healthy))
        only["gpus"][0]["name"] = text
        data = {"f.json": json.dumps(only).encode()}
        yield Case(f"facts name {kind}", ("report", "f.json", "--only", "GPU"), data)
    for name, text in {
        "deep": b"[" * 100_000,
        "number": b'{"doctor": 1e999, "torch": -0}',
        "empty": b"",
        "nul": b"\0" * 4096,
        "utf16": '{"doctor": "x"}'.encode("utf-16"),
        "many": b'{"gpus":' + b"[1," * 50_000,
    }.items():
        yield Case(f"facts file {name}", ("report", "f.json"), {"f.json": text})


ERROR = "RuntimeError: CUDA error: device-side assert triggered"


def _logs() -> Iterator[Case]:
    for kind, text in TEXTS.items():
        line = f"step 1 loss 2.0\n{text} {ERROR} {text}\n".encode("utf-8", "surrogatepass")
        for name in REPORTS if kind in ("line", "escape", "secret") else ("console",):
            yield Case(f"log {kind} {name}", ("triage", "t.log", "--format", name), {"t.log": line})
        if kind not in ("nul", "long", "surrogate", "shell", "html", "markdown", "markup"):
            path = f"a{text}.log".replace("/", ":")[:200]
            yield Case(f"log named {kind}", ("triage", path), {path: line})
            yield Case(f"log missing {kind}", ("triage", f"no{path}"))
    bomb = gzip.compress(b"a" * 30_000_000)
    yield Case("log bomb", ("triage", "t.log.gz"), {"t.log.gz": bomb})
    yield Case("log pickle", ("triage", "dump_0"), {"dump_0": executes})
    yield Case("log directory of links", ("triage", "."), links={"a.log": "/dev/zero"})
    for name, text in {
        "repeats": "((((" * 4000,
        "colons": ":" * 60_000,
        "nan": "nan " * 20_000,
    }.items():
        yield Case(f"log {name}", ("triage", "t.log"), {"t.log": f"{text}\n{ERROR}\n".encode()})


def _scripts() -> Iterator[Case]:
    for kind, text in TEXTS.items():
        comment = "".join(f"  # {part}\n" for part in text.split("\n"))
        source = SCRIPT.replace("1.0)\n", f"1.0){comment}").encode("utf-8", "surrogatepass")
        formats = REPORTS if kind in ("escape", "secret", "separator") else ("console", "github")
        for name in formats:
            yield Case(f"script {kind} {name}", ("lint", "--format", name), {"t.py": source})
        if kind not in ("nul", "long", "surrogate", "secret"):
            path = f"t{text}.py".replace("/", ":")[:200]
            yield Case(
                f"script named {kind}", ("lint", "--format", "concise"), {path: SCRIPT.encode()}
            )
            yield Case(f"script diff {kind}", ("lint", "--diff"), {path: SCRIPT.encode()})
            yield Case(f"script missing {kind}", ("lint", f"no{path}"))
    for name, data in {
        "deep.py": b"(" * 5_000,
        "signs.py": b"x = " + b"-" * 100_000 + b"1",
        "attributes.py": b"x = a" + b".b" * 50_000,
        "nul.py": b"x = 1\0",
        "rot.py": b"# coding: rot13\nvzcbeg bf",
        "encoding.py": b"# coding: idna\nx = '\xff'",
        "noqa.py": b"x = 1  # noqa: SCR101\n" * 5_000,
        "book.ipynb": b'{"cells": [{"cell_type": "code", "source": "'
        + b"!touch mark\\n" * 9
        + b'"}]}',
        "deep.ipynb": b'{"cells": ' + b"[" * 50_000,
        "bomb.yaml": b"a: &a [x, x]\n"
        + b"".join(
            b"%c: &%c [*%c, *%c]\n" % (97 + n, 97 + n, 96 + n, 96 + n) for n in range(1, 25)
        ),
        "tag.yaml": b"x: !!python/object/apply:os.system ['touch mark']\nfp16: true\n",
        "deep.json": b"[" * 100_000,
        "run.sh": b"torchrun $(touch mark) train.py --x `touch mark`\n" * 50,
    }.items():
        yield Case(f"source {name}", ("lint", name, "--format", "json"), {name: data})


def _job_files() -> Iterator[Case]:
    for kind, text in TEXTS.items():
        if kind in ("surrogate", "secret"):
            continue
        quoted = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
        for key, toml in {
            "value": f"[job]\ndevice = {quoted}\n",
            "key": f"[job]\n{quoted} = 1\n",
            "ignore": f"[[ignore]]\ncode = {quoted}\nreason = {quoted}\n",
        }.items():
            files = {"doctor.toml": toml.encode(), "t.log": b"step 1 loss 2.0\n"}
            yield Case(f"job file {key} {kind}", ("lint",), files)
            yield Case(f"job file {key} {kind} of a triage", ("triage", "t.log"), files)
    for key in (
        "python = './p'",
        "model = 'p:make'",
        "hf = '.'",
        "checkpoint = 'http://127.0.0.1:9'",
    ):
        files = {"doctor.toml": f"[job]\n{key}\n".encode(), "p": program, "p.py": program}
        yield Case(f"job file {key[:6]}", ("prescribe",), files)


def _arguments() -> Iterator[Case]:
    silent = ("nul", "surrogate", "long", "secret")
    texts = {kind: text for kind, text in TEXTS.items() if kind not in silent}
    for words in (
        *(("explain",), ("list",), ("report",), ("read",), ("triage",), ("lint",), ("data",)),
        *(("compare",), ("fleet",), ("help",), ("completion",), ("ledger",), ("ledger", "list")),
        *(("ledger", "show", "l"), ("ledger", "forget", "l"), ("guard", "--"), ("rehearse", "--")),
        *(("init", "--factory-for"), ("compare", "f.json", "--topology"), ("prescribe", "--for")),
        *(("compare", "f.json", "--ledger"), ("compare", "f.json", "--save-facts"), ("scan",)),
        *(("scan", "f.json", "--equals"), ("scan", "f.json", "--merged-from"), ()),
        *(("data", "f.json", "--tokenizer"), ("data", "f.json", "--split"), ("run", "--only")),
        *(("rehearse", "--signal"), ("rehearse", "--budget"), ("run", "--config")),
        *(("rehearse", "--output-dir"), ("fleet", "run", "--nodes"), ("run", "--gpus")),
        *(("fleet", "run", "--nodes", "2", "--address"), ("scan", "--format")),
        *(("fleet", "triage", "f.json", "--secret-file"), ("report", "f.json", "--output")),
    ):
        last = {"rehearse": ("--", "true")}.get(words[0] if words[1:] else "", ())
        whole = (*words, "".join(texts.values()), *(last if "--" not in words else ()))
        files = {"f.json": b"{}", "l/x": b""}
        yield Case(f"argument {' '.join(words)}", whole, files, may_write=("doctor-guard/*",))
    for kind, text in texts.items():
        yield Case(f"flag {kind}", ("run", f"--{text}"))
        yield Case(f"error {kind}", ("explain", f"{ERROR}{text}"))
        yield Case(f"explain stdin {kind}", ("explain", "-"), input=f"{ERROR}{text}")
        words = ("lint", "-", "--stdin-filename", f"{text}.py")
        yield Case(f"lint stdin {kind}", words, input=SCRIPT)


def _records() -> Iterator[Case]:
    for kind, text in TEXTS.items():
        if kind == "surrogate":
            continue
        lines = [
            {"kind": "meta", "rank": 0, "world": 1, "started": 1, "names": [text], "python": text},
            {"kind": "step", "o": 0, "s": 1, "t": 1.0, "loss": "nan"},
            {"kind": "alarm", "code": "GRD001", "status": "fail", "step": 1, "text": text,
             "cause": text, "names": [text]},
            {"kind": "end", "how": text},
        ]  # fmt: skip
        run = {"command": ["python", text, "--password", TOKENS[3]], "exit_code": 1}
        files = {
            "records/rank0-1.jsonl": "\n".join(map(json.dumps, lines)).encode(),
            "records/run.json": json.dumps(run).encode(),
        }
        for form in ("console", "html", "github"):
            yield Case(f"records {kind} {form}", ("report", "records", "--format", form), files)
    yield Case(
        "records link",
        ("report", "records"),
        {"records/x": b""},
        {"records/rank0-1.jsonl": "/dev/zero"},
    )


def _pasted() -> Iterator[Case]:
    for kind, text in TEXTS.items():
        lines = COLLECT_ENV.replace("H100 80GB HBM3", f"H100 {text}").replace("12.4", f"12.4{text}")
        data = lines.encode("utf-8", "surrogatepass")
        for form in ("console", "json"):
            yield Case(
                f"pasted {kind} {form}", ("read", "p.txt", "--format", form), {"p.txt": data}
            )


def _places() -> Iterator[Case]:
    """Files that would be written elsewhere, and modules that take another's place."""
    secret = {"victim/secret.py": SCRIPT.encode()}
    yield Case(
        "fix through a link",
        ("lint", "--fix", "d"),
        secret,
        {"d/a.py": "../victim/secret.py"},
        may_write=("d/*",),
    )
    yield Case(
        "fix through a directory",
        ("lint", "--fix", "d"),
        secret,
        {"d": "victim"},
        may_write=("victim/*",),
    )
    for name in (
        "torch",
        "json",
        "typer",
        "rich",
        "numpy",
        "pynvml",
        "sitecustomize",
        "usercustomize",
    ):
        files = {
            f"{name}.py": lambda mark: f"open({str(mark)!r}, 'w')\n".encode(),
            "t.py": SCRIPT.encode(),
        }
        yield Case(f"a module {name}", ("lint", "t.py"), files)
    for name in ("git", "nvidia-smi", "python3", "sh"):
        yield Case(f"a program {name}", ("lint",), {name: program, "t.py": SCRIPT.encode()})
    for form in ("json", "html", "sarif"):
        words = ("lint", "--output", f"{form}=out/report")
        yield Case(
            f"output {form}",
            words,
            {"t.py": SCRIPT.encode(), "out/x": b""},
            may_write=("out/report",),
        )
