"""Names, calls and attributes that raise when they are reached, and sound code of the same look."""

from __future__ import annotations

import pytest

from doctor.checks.script.lint import lint
from doctor.facts.script_machine import ScriptMachine
from doctor.script.python import read_python

CODES = {"SCR438", "SCR439", "SCR440", "SCR441"}
FAULTY = {
    "a misspelled name on a rare path": ("SCR438", "def f(x):\n    if not x: Variabel(x)\n"),
    "an import is missing": ("SCR438", "def f(path):\n    return pickle.load(path)\n"),
    "an annotation is evaluated": ("SCR438", "def f(x: List[int]): pass\n"),
    "read above its assignment": ("SCR438", "def f(x):\n    x += step\n    step = 1\n"),
    "a builtin that a name hides": ("SCR438", "def f(x):\n    sum = sum(x)\n"),
    "__all__ names nothing": ("SCR438", "__all__ = ['Net', 'Nets']\nclass Net: pass\n"),
    "no such parameter": ("SCR439", "def f(a, b=1): pass\nf(1, c=2)\n"),
    "a parameter without a value": ("SCR439", "def f(a, b): pass\nf(1)\n"),
    "too many arguments": ("SCR439", "def f(a): pass\nf(1, 2)\n"),
    "three values for two names": ("SCR439", "def f(x):\n    return x, x, x\na, b = f(1)\n"),
    "a method without self": (
        "SCR439", "class A:\n    def f(self):\n        return self.g(1)\n    def g(): pass\n"
    ),
    "a constructor": ("SCR439", "class A:\n    def __init__(self, x): pass\nA()\n"),
    "an option that nobody adds": (
        "SCR440",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size')\n"
        "args = p.parse_args()\nprint(args.batchsize)\n",
    ),
    "an option in main(args)": (
        "SCR440",
        "import argparse\ndef main(args):\n    print(args.rate)\n"
        "if __name__ == '__main__':\n    p = argparse.ArgumentParser()\n"
        "    p.add_argument('--lr')\n    args = p.parse_args()\n    main(args)\n",
    ),
    "an attribute that nothing sets": (
        "SCR440",
        "class Net(torch.nn.Module):\n    def __init__(self):\n        self.a = 1\n"
        "    def forward(self, x): return self.b(x)\n",
    ),
    "a dictionary of Python 2": ("SCR441", "state = {}\nfor k, v in state.iteritems(): pass\n"),
    "an iterator of Python 2": ("SCR441", "it = iter([1])\nx = it.next()\n"),
}  # fmt: skip
SOUND = {
    "a name bound below in the module": "def f():\n    return LATER\nLATER = 1\n",
    "a loop leads back": "def f(xs):\n    for x in xs:\n        if x: print(y)\n        y = x\n",
    "a star import": "from layers import *\nx = Conv()\n",
    "a configurator": "exec(open('c.py').read())\nprint(rate)\n",
    "a fallback for Python 2": "try:\n    text = unicode\nexcept NameError:\n    text = str\n",
    "an annotation that waits": "from __future__ import annotations\ndef f(x: List[int]): pass\n",
    "a comprehension": "x = [a for b in [[1]] for a in b]\n",
    "a walrus": "if (n := len([])) > 0: print(n)\n",
    "global": "def f():\n    global state\n    state = 1\ndef g(): return state\n",
    "a class scope": "class A:\n    x = 1\n    y = x\n",
    "an except clause": "try:\n    pass\nexcept Exception as e:\n    print(e)\n",
    "__class__": "class A:\n    def f(self): return __class__\n",
    "unpacked arguments": "def f(a, b): pass\nf(*[1, 2])\nf(**{})\n",
    "a decorator that changes them": "import click\n@click.command()\ndef f(a): pass\nf()\n",
    "redefined": "def f(a): pass\ndef f(a, b): pass\nf(1, 2)\n",
    "one of two returns fits": "def f(x):\n    if x: return 1, 2\n    return 1,\na, b = f(1)\n",
    "a method that another class overrides": (
        "class A:\n    def f(self): self.g(1)\n    def g(self): pass\nclass B(A): pass\n"
    ),
    "a static method": (
        "class A:\n    def f(self): self.g(1)\n    @staticmethod\n    def g(x): pass\n"
    ),
    "expected to raise": "def f(a): pass\ntry:\n    f()\nexcept TypeError:\n    pass\n",
    "options of another file": (
        "import argparse, opts\np = argparse.ArgumentParser()\np.add_argument('--a')\n"
        "opts.add(p)\nargs = p.parse_args()\nprint(args.b)\n"
    ),
    "another file sets it": (
        "import argparse, utils\np = argparse.ArgumentParser()\np.add_argument('--a')\n"
        "args = p.parse_args()\nutils.init_distributed_mode(args)\nprint(args.gpu)\n"
    ),
    "set by the file": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--a')\n"
        "args = p.parse_args()\nargs.b = 1\nprint(args.b)\n"
    ),
    "a base of another file": (
        "from .module import Module\nclass A(Module):\n    def __init__(self): pass\n"
        "    def f(self): return self.save()\n"
    ),
    "a buffer by name": (
        "class A(torch.nn.Module):\n    def __init__(self):\n"
        "        self.register_buffer('mask', None)\n    def f(self): return self.mask\n"
    ),
    "six": "import six\nfor k, v in six.iteritems({}): pass\n",
    "a node of a list": "def f(head):\n    node = head\n    return node.next()\n",
}


def codes(text: str) -> set[str]:
    script = read_python("train.py", ("import torch\n" + text).encode())
    if text.startswith("from __future__"):
        script = read_python("train.py", (text + "import torch\n").encode())
    assert not script.unreadable
    return {hit.code for hit in lint(script, ScriptMachine()) if hit.code in CODES}


@pytest.mark.parametrize("what", FAULTY)
def test_what_raises_is_reported(what: str) -> None:
    code, text = FAULTY[what]
    assert codes(text) == {code}


@pytest.mark.parametrize("what", SOUND)
def test_what_does_not_raise_is_not(what: str) -> None:
    assert codes(SOUND[what]) == set()


def test_a_test_raises_on_purpose() -> None:
    assert not codes("import pytest\ndef test_f():\n    missing()\n")


def test_the_message_names_what_is_there() -> None:
    script = read_python("train.py", b"import torch\ndef f(image): torch.cat(images)\n")
    messages = [hit.message for hit in lint(script, ScriptMachine()) if hit.code == "SCR438"]
    assert messages == ["images is not defined: NameError; image is"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"import torch\nf(a=1, a=2)\n", "syntax error: keyword argument repeated: a"),
        (b"import torch\nreturn 1\n", "syntax error: 'return' outside function"),
    ],
)
def test_what_the_compiler_refuses_is_a_syntax_error(text: bytes, reason: str) -> None:
    (unreadable,) = read_python("train.py", text).unreadable
    assert unreadable.reason == reason
    assert unreadable.span.line == 2
