"""Passwords and tokens in argument lists and in text."""

from __future__ import annotations

import ast
import re
import time
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import ROOT

from doctor import guard, probes
from doctor._util import secrets
from doctor._util.secrets import (
    HIDDEN,
    hide_in_arguments,
    hide_secrets,
    kind_of,
    pattern_of_values,
)
from doctor._util.units import shown

SECRET_NAMES = (  # noqa: SIM905
    "--api-key --hub_token --password --wandb_key --pw token secret credential auth HF_TOKEN "
    "PGPASSWORD WANDB_API_KEY --dbpass MYSQL_PWD AWS_SECRET_ACCESS_KEY --hfToken --apiKey2 "
    "--hub-tokens --openai_key --ssh-host-key --apikey access_key +wandb.api_key "
    "db.credentials --client-secret-name"
).split()
OTHER_NAMES = (  # noqa: SIM905
    "--tokenizer --max-tokens --keep --author --passes --keypoints --num-key-value-heads PWD "
    "--password-file secrets.py --pad-token --sort-key --no-auth path pattern --patience KeyError "
    "key_dim --bypass --data-key --group-by-key --keys --tokens cache_key state_key n_tokens "
    "--hotkey"
).split()


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_name_of_a_secret(name: str) -> None:
    flag = name if name.startswith("-") else f"--{name}"
    assert hide_in_arguments([flag, "hunter"]) == (flag, HIDDEN)
    assert hide_in_arguments([f"{name}=hunter"]) == (f"{name}={HIDDEN}",)


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_name_like_that_of_a_secret(name: str) -> None:
    assert kind_of(name) == ""
    words = (name, "hunter", f"{name}=hunter")
    assert hide_in_arguments(words) == words


def test_arguments_of_a_training() -> None:
    typed = (
        "python t.py --db postgres://u:pgpw@h/x --pw 1234 --key 8 --lr 0.1 --api-keys one two "
        "--epochs 3 --use-auth -v out -e HF_TOKEN=three --token"
    )
    stored = (
        f"python t.py --db postgres://{HIDDEN}@h/x --pw {HIDDEN} --key 8 --lr 0.1 --api-keys "
        f"{HIDDEN} {HIDDEN} --epochs 3 --use-auth -v out -e HF_TOKEN={HIDDEN} --token"
    )
    assert hide_in_arguments(typed.split()) == tuple(stored.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run --password hunter2 --x 1", f"run --password {HIDDEN} --x 1"),
        ("password=hun", f"password={HIDDEN}"),
        ("password: hunter2", f"password: {HIDDEN}"),
        ("'WANDB_API_KEY': 'abcd1234', 'A': 'b'", f"'WANDB_API_KEY': '{HIDDEN}', 'A': 'b'"),
        ('{"token": "abc"}', f'{{"token": "{HIDDEN}"}}'),
        ('os.environ["HF_TOKEN"] = "abc"', f'os.environ["HF_TOKEN"] = "{HIDDEN}"'),
        ("password=bf", f"password={HIDDEN}"),
        ("HF_TOKEN=rb77aa0011", f"HF_TOKEN={HIDDEN}"),
        ("token=b'abc'", f"token=b'{HIDDEN}'"),
        ("wandb_key=abc openai_key=abc", f"wandb_key={HIDDEN} openai_key={HIDDEN}"),
        ("AWS_SECRET_ACCESS_KEY=abc", f"AWS_SECRET_ACCESS_KEY={HIDDEN}"),
        ("apikey: abcdef1 x", f"apikey: {HIDDEN} x"),
        ("hub_tokens=abc,def x", f"hub_tokens={HIDDEN} x"),
        ("curl -u user:pass h", f"curl -u {HIDDEN} h"),
        ("curl --user=bob:hunter2 h", f"curl --user={HIDDEN} h"),
        ("curl --proxy-user 'bob:my pass' h", f"curl --proxy-user '{HIDDEN}' h"),
        ("['curl', '-u', 'bob:hunter2']", f"['curl', '-u', '{HIDDEN}']"),
        ("passkey token=abcdefg", f"passkey token={HIDDEN}"),
        ("['--pw', 'hunter', '--lr', '1']", f"['--pw', '{HIDDEN}', '--lr', '1']"),
        ("PASSWORD='a b c'", f"PASSWORD='{HIDDEN}'"),
        ("Authorization: Basic dXNlcjpwYXNz", f"Authorization: Basic {HIDDEN}"),
        ("-H 'Authorization: Bearer abcdefghi'", f"-H 'Authorization: Bearer {HIDDEN}'"),
        ("postgres://u:p@ss@h/x", f"postgres://{HIDDEN}@h/x"),
        ("mysql://root:p@ss/w@h/db x@y", f"mysql://{HIDDEN}@h/db x@y"),
        ("'mysql://root:12@ss/w@h/db'", f"'mysql://{HIDDEN}@h/db'"),
        ("redis://:p/w@h", f"redis://{HIDDEN}@h"),
        ("postgres://u:1234@h/x", f"postgres://{HIDDEN}@h/x"),
        ("https://u:p/w?x@h/x?sig=1", f"https://{HIDDEN}@h/x?{HIDDEN}"),
        ("https://h/x?next=http://y&sig=1 z", f"https://h/x?{HIDDEN} z"),
        ("401 for hf_abcdefghijklmnopqrstuvwxyz.", f"401 for {HIDDEN}."),
        ("cut: hf_Ab...", f"cut: {HIDDEN}..."),
        ("sk-ant-api03-0123456789abcdef", HIDDEN),
        ("AKIAIOSFODNN7EXAMPLE", HIDDEN),
        ("github_pat_11ABCDEFG0123456789ab", HIDDEN),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_", HIDDEN),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4\nMII\n-----END RSA PRIVATE KEY-----.",
            f"{HIDDEN}.",
        ),
    ],
)
def test_a_secret_in_a_text(text: str, expected: str) -> None:
    assert hide_secrets(text) == expected
    assert hide_secrets(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "train.py:secret",
        "secret: returned None",
        "mm.py:secret:12",
        "train.py:make_token() takes no argument",
        "token = tokenizer(x)",
        "api_key=os.environ['X']",
        "login(token=args.token, password=password)",
        "sort(key=len)",
        "token == eos",
        "pass=21 warn=0",
        "hf://org/model@revision",
        "is it so? https://host/x",
        "hf_model_config and sk-learn",
        "KeyError: 'token'",
        "the key is in the state dict: token_embedding.weight",
        "Tokens: 8.1B/300B, tokens=12k, n_tokens=1.2M, total_tokens: 3.2e9tok",
        "token=12k, hub_token: 8.1B/300B",
        "cache_key=batch_norm2",
        "dict(key='input_ids2')",
        "state_key=exp_avg_sq1",
        "RuntimeError: missing key=layer_4",
        "key: 0x7fab1234",
        "--data-key image --group-by-key speaker1 --keys a1b2c3 d4e5f6",
        "docker run -u 1000:1000 -v a:b",
        "python -u train.py",
        "python -u C:\\train.py",
        "wget -u https://host:80/x",
        "curl -u bob: h",
        "https://host:8080/path@v2",
        "git+https://host/repository@v1",
        "tcp://[::1]:29500/a@b",
    ],
)
def test_a_text_without_a_secret_stays(text: str) -> None:
    assert hide_secrets(text) == text


def test_a_quotation_is_redacted_before_it_is_cut() -> None:
    line = "x" * 80 + " client = Client(password='correct horse battery staple')"
    for limit in range(100, 120):
        assert "correct" not in shown(line, limit)


@pytest.mark.parametrize(
    ("words", "stored"),
    [
        (["bash", "-c", "HF_TOKEN=hf_x python t.py"], f"HF_TOKEN={HIDDEN} python t.py"),
        (
            ["sh", "-c", "A_PASSWORD='a b' WANDB_API_KEY=z x"],
            f"A_PASSWORD={HIDDEN} WANDB_API_KEY={HIDDEN} x",
        ),
        (["--password=a b c"], f"--password={HIDDEN}"),
        (["-e", "PASSWORD=a b c"], f"PASSWORD={HIDDEN}"),
        (["db.password=a b"], f"db.password={HIDDEN}"),
        (["curl", "-u", "bob:a b"], HIDDEN),
        (["curl", "--user=bob:a b"], f"--user={HIDDEN}"),
        (["docker", "--user", "1000:1000"], "1000:1000"),
    ],
)
def test_the_last_word_of_a_command(words: list[str], stored: str) -> None:
    assert hide_in_arguments(words) == (*words[:-1], stored)


BEGINNINGS = (
    "key=",
    "api_key=",
    "-u ",
    "-u a:",
    "://a:",
    "://a:@",
    "hf_",
    "://",
    "password ",
    "--pw ",
    "://a@",
    "eyJ.",
    "'key':",
    "pass.",
    "https://x?",
    "-----BEGIN PRIVATE KEY-----",
    "'--key', '",
)


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_the_time_grows_with_the_length(beginning: str) -> None:
    def seconds(length: int) -> float:
        text = beginning * (length // len(beginning))
        started = time.process_time()
        hide_secrets(text)
        return time.process_time() - started

    assert seconds(400_000) < 16 * max(seconds(100_000), 0.05)


@given(
    st.sampled_from([name for name in SECRET_NAMES if name.startswith("--")]),
    st.text("abcdefXYZ0123456789!$%+", min_size=9, max_size=30),
)
def test_no_form_of_an_argument_shows_its_value(flag: str, value: str) -> None:
    for words in ((flag, value), (f"{flag}={value}",), ("sh", f"run {flag} {value}x1")):
        assert value not in " ".join(hide_in_arguments(("python", *words, "--lr", "1")))


def test_the_values_of_own_variables_are_hidden_as_words() -> None:
    environ = {"MY_TOKEN": "correcthorse", "PWD": "/tmp/correct", "A_KEY": "1", "B_KEY": "/k/file"}
    pattern = pattern_of_values(environ)
    assert pattern is not None
    assert pattern.sub(HIDDEN, "a correcthorse, 1 /k/file /tmp/correct") == (
        f"a {HIDDEN}, 1 /k/file /tmp/correct"
    )
    assert pattern_of_values({"MY_KEY": "correcthorse"}) is not None
    assert pattern_of_values({"PWD": "/tmp/correct"}) is None


@pytest.mark.parametrize("package", ["probes", "guard"])
def test_the_rules_stand_in_one_file(package: str) -> None:
    link = ROOT / "doctor" / package / "secrets.py"
    assert link.is_symlink(), "an editor or a formatter has put a copy in its place"
    assert link.samefile(ROOT / "doctor" / "_util" / "secrets.py")


@pytest.mark.parametrize("package", [probes, guard], ids=lambda package: package.__name__)
def test_probes_and_the_guard_have_the_same_rules(package: ModuleType) -> None:
    """They run without the doctor's packages: the file is a link, which a wheel holds as a copy."""
    own, shipped = Path(secrets.__file__), Path(str(package.__file__)).with_name("secrets.py")
    source = own.read_text("utf-8")
    assert shipped.read_text("utf-8") == source
    assert ast.parse(source, feature_version=(3, 9))
    assert not re.search(r"^(?:from|import) doctor", source, re.MULTILINE)


def test_a_variable_that_is_set_later_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets._own_values.cache_clear()  # of as many variables as another test had
    value = "a-value-of-no-known-shape"
    assert hide_secrets(value) == value
    monkeypatch.setenv("LATE_PASSWORD", value)
    assert hide_secrets(f"refused: {value}") == f"refused: {HIDDEN}"


def test_a_value_of_a_variable_is_hidden_before_a_quotation_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A part of it would no longer be recognized."""
    monkeypatch.setenv("ANOTHER_PASSWORD", "wxyz-wxyz-wxyz-wxyz")
    monkeypatch.setenv("ONE_MORE", "")  # values are read again when the number of variables changes
    assert "wxyz" not in shown("refused: wxyz-wxyz-wxyz-wxyz", 20)


@pytest.mark.parametrize("before", ["api key ", "using key: ", "the token is ", "secret  "])
def test_long_hex_after_the_name_of_a_secret_is_hidden(before: str) -> None:
    value = "0123456789abcdef" * 2 + "01234567"
    assert hide_secrets(f"wandb: {before}{value}") == f"wandb: {before}{HIDDEN}"
    assert hide_secrets(f"cache key {value}") == f"cache key {value}"
