"""Rules on numbers of classes and tokens: heads, adapters, texts that a trainer gets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.data.rewards import rewards
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

TASKS = {
    "ForSequenceClassification": "SEQ_CLS", "ForTokenClassification": "TOKEN_CLS",
    "ForCausalLM": "CAUSAL_LM", "LMHeadModel": "CAUSAL_LM", "ForSeq2SeqLM": "SEQ_2_SEQ_LM",
    "ForConditionalGeneration": "SEQ_2_SEQ_LM", "ForQuestionAnswering": "QUESTION_ANS",
}  # fmt: skip
LAYERS = (
    (r"gpt2|GPT2", {"c_attn", "c_proj", "c_fc"}),
    (r"bloom|falcon|pythia|neox|GPTNeoX|Bloom|Falcon|chatglm",
     {"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"}),
    (r"(?:^|[/-])t5|flan-t5|T5For|mt5", {"q", "k", "v", "o", "wi", "wo", "wi_0", "wi_1"}),
    (r"bert-base|bert-large|roberta|BertFor|RobertaFor",
     {"query", "key", "value", "dense", "classifier"}),
    (r"llama|Llama|mistral|Mistral|qwen|Qwen|gemma|Gemma",
     {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head",
      "embed_tokens"}),
)  # fmt: skip
"""Models by their names, and their layers that adapters can wrap."""


def adapters(reading: Training) -> Iterator[Match]:
    loaded = [reading.calls[n] for n in reading.loads]
    if len(loaded) != 1:
        return
    model = loaded[0]
    for call in reading.named("LoraConfig"):
        task = _text(call, "task_type").rpartition(".")[2]
        wanted = next((t for ending, t in TASKS.items() if ending in model.name), "")
        if wanted and task and task != wanted and task in TASKS.values():
            more = ": its new head stays frozen" if wanted.endswith("CLS") else ""
            yield Match(call.span, f"task_type is {task} for a model of {wanted}{more}")
        yield from _layers(reading, call, model)


def _text(call: Call, key: str) -> str:
    value = call.keywords.get(key)
    if value is None:
        return ""
    return str(value.literal) if value.kind == "literal" else value.name


def _layers(reading: Training, call: Call, model: Call) -> Iterator[Match]:
    """target_modules of another architecture."""
    value = call.keywords.get("target_modules")
    named = (
        {str(v.literal) for v in value.items}
        if value is not None and value.kind == "list"
        else set()
    )
    source = evaluate.argument(reading, model, "pretrained_model_name_or_path", 0)
    found = evaluate.literals(reading, source, model)
    text = f"{model.name} {found.pop()}" if len(found) == 1 else model.name
    text = text if evaluate.UNDECIDED not in text.split() else model.name
    own = next((layers for pattern, layers in LAYERS if re.search(pattern, text)), set())
    if named and own and not named & own and all(re.fullmatch(r"\w+", n) for n in named):
        yield Match(
            call.span,
            f"the model has no layers {', '.join(sorted(named))}: it has "
            f"{', '.join(sorted(own)[:3])}",
        )


def heads(reading: Training) -> Iterator[Match]:
    """A classifier of two classes by default, and a list of more labels."""
    for n in reading.loads:
        call = reading.calls[n]
        if (
            not re.search("For(?:Sequence|Token|Image|Audio)Classification", call.name)
            or call.unpacked
        ):
            continue
        if {"num_labels", "config", "id2label", "label2id"} & call.keywords.keys():
            continue
        source = evaluate.argument(reading, call, "pretrained_model_name_or_path", 0)
        plain = source is not None and re.search(
            r"^(?:[\w-]+/)?(?:bert|roberta|distilbert|albert|electra|deberta|xlm-roberta|vit|camembert)"
            r"[\w-]*$", "".join(map(str, evaluate.literals(reading, source, call))),
        )  # fmt: skip
        counts = [
            (a.target, len(a.value.items)) for a in reading.assignments
            if a.scope == 0 and a.value.kind == "list" and len(a.value.items) > 2
            and re.fullmatch(r"labels?|classes|label_names|class_names|names|tags|label_list",
                             a.target.casefold())
            and all(isinstance(v.literal, str) for v in a.value.items)
        ]  # fmt: skip
        counts += _of_known_sets(reading)
        if plain and counts:
            yield Match(
                call.span, f"the head has 2 classes by default, {counts[0][0]} has {counts[0][1]}"
            )


def reward_heads(reading: Training) -> Iterator[Match]:
    """RewardTrainer(model=...ForSequenceClassification.from_pretrained(name)): two outputs."""
    for call in reading.named("RewardTrainer"):
        value = call.given("model", 0)
        for made in objects.makers_at(reading, value, call) if value is not None else ():
            known = made is not None and made.name.endswith(
                "ForSequenceClassification.from_pretrained"
            )
            if not known or made is None or made.unpacked:
                continue
            names = evaluate.literals(reading, made.first, made)
            source = names.pop() if len(names) == 1 else None
            count = made.keywords.get("num_labels")
            own = {"config", "id2label", "label2id", "problem_type"} & made.keywords.keys()
            plain = isinstance(source, str) and BASE.fullmatch(source) and not REWARD.search(source)
            if (count is None and plain and not own) or (
                count is not None and evaluate.literals(reading, count, made) == {2}
            ):
                message = "the head has 2 outputs by default: a reward is one number"
                yield Match(made.span, message, fix="Pass num_labels=1.")


REWARD = re.compile(r"reward|[-_/]rm(?:[-_]|$)|ultrarm|skywork", re.IGNORECASE)
BASE = re.compile(
    r"(?:(?:openai-community|distilbert)/)?(?:distil)?gpt2[\w-]*|(?:(?:google-bert|FacebookAI)/)?"
    r"(?:distil)?(?:ro)?bert[a-]+(?:base|large)[a-z-]*|(?:meta-llama|mistralai|Qwen|EleutherAI|"
    r"facebook|google|HuggingFaceTB|microsoft|bigscience|tiiuae|answerdotai|unsloth)/[\w.-]+"
)
"""Models of the Hub without a head of their own: what a directory holds is another matter."""


CLASSES = {
    "ag_news": 4, "dbpedia_14": 14, "yelp_review_full": 5, "amazon_reviews_multi": 5, "emotion": 6,
    "banking77": 77, "trec": 6, "snli": 3, "multi_nli": 3, "financial_phrasebank": 3, "anli": 3,
    "20_newsgroups": 20, "clinc_oos": 151, "food101": 101, "cifar10": 10, "cifar100": 100,
    "beans": 3, "conll2003": 9, "wnut_17": 13, "mnist": 10,
}  # fmt: skip
"""Datasets of the Hub by their names, and how many classes they have."""


def _of_known_sets(reading: Training) -> list[tuple[str, int]]:
    """The one dataset that is loaded, where its number of classes is known."""
    calls = reading.named("load_dataset")
    names = {str(c.args[0].literal).rpartition("/")[2] for c in calls if c.args}
    return [(name, CLASSES[name]) for name in names if len(names) == 1 and name in CLASSES]


def texts(reading: Training) -> Iterator[Match]:
    """What a map() makes of texts: no batch axis, no open prompt."""
    mapped = {v.name for other in reading.named("map") for v in other.args[:1]}
    for number, call in enumerate(reading.calls):
        function = reading.function(call.scope).name
        value = call.keywords.get("return_tensors")
        inside = function in mapped or any(
            number in v.calls for inner in reading.named("map") for v in inner.args[:1]
        )
        batched = any("batched" in made.keywords for made in reading.named("map"))
        flat = reading.mentions("squeeze", "flatten", "set_format", "generate")
        rows = value is not None and value.literal == "pt" and inside and not (batched or flat)
        if rows and not re.search(r"\)\[|\[0\]", _around(reading, call)):
            yield Match(
                call.span, "each row is a batch of one: return_tensors adds an axis", "warn"
            )
        opened = call.keywords.get("add_generation_prompt")
        if call.method == "apply_chat_template" and opened is not None and opened.literal is True:
            labelled = any("labels" in v.keys for v in reading.function(call.scope).returns)
            answered = _holds_answer(reading, call)
            learned = labelled or inside or _is_row_of_training(reading, number, call)
            if answered and learned:
                yield Match(
                    call.span,
                    "an open answer follows the answer: add_generation_prompt is for generation",
                    "warn",
                )


def _around(reading: Training, call: Call) -> str:
    return "".join(render(reading, v) for v, s, scope in reading.expressions
                   if scope == call.scope and s.line == call.span.line)  # fmt: skip


def _is_row_of_training(reading: Training, number: int, call: Call) -> bool:
    """The rendered text is collected for a Dataset, and nothing in the file generates."""
    made = any(c.name.startswith("datasets.Dataset.from_") for c in reading.named(*FROM_ROWS))
    if not made or not reading.trainers or reading.methods("generate", "pipeline"):
        return False
    held = {a.target for a in reading.assignments if number in (a.value.call, *a.value.calls)}
    return any(
        number in other.first.calls or bool(held & set(other.first.all_names))
        for other in reading.named("append", *FROM_ROWS)
        if other.scope == call.scope and other.first is not None
    )


FROM_ROWS = ("from_list", "from_dict", "from_pandas", "from_generator")


def _holds_answer(reading: Training, call: Call) -> bool:
    """The messages end with one of the assistant."""
    value: Value | None = call.first
    if value is not None and value.kind == "item" and value.items[-1].kind == "slice":
        return False
    found = evaluate.options(reading, value, call)
    for option in found:
        column = option.name.rpartition("[")[2].removesuffix("]")
        if option.kind == "item" and column in ("messages", "conversation", "conversations"):
            return bool(reading.trainers)
        last = option.items[-1] if option.kind == "list" and option.items else None
        if last is not None and "'assistant'" in render(reading, last):
            return True
    return False


RULES = (
    Rule(
        code="SCR371",
        slug="adapter-of-another-model",
        title="Adapters are for the layers and the task of the model",
        severity="fail",
        find=adapters,
        why="PEFT raises where the model has none of the target modules. With the task of another "
        "model the new head is neither trained nor saved with the adapter.",
        fires=(
            "target_modules=['q_proj', 'v_proj'] for GPT-2, BERT, T5, BLOOM",
            "task_type=CAUSAL_LM for a model for sequence classification",
        ),
        fix="Name layers of this model, or 'all-linear'; task_type=TaskType.SEQ_CLS.",
        sources=("peft-new-tokens",),
        needs=("LoraConfig",),
    ),
    Rule(
        code="SCR372",
        slug="classes-of-the-head",
        title="The head has as many classes as there are labels",
        severity="fail",
        find=each_of(heads, reward_heads),
        why="Without num_labels a classifier of transformers has two classes: labels above 1 "
        "raise, on a GPU as a device-side assertion.",
        fires=(
            "AutoModelForSequenceClassification without num_labels beside three labels or more",
            "the same of a name of the Hub in a RewardTrainer, or with num_labels=2",
        ),
        fix="Pass num_labels=len(LABELS), for a reward num_labels=1.",
        sources=("transformers-token-classification",),
        needs=("from_pretrained",),
    ),
    Rule(
        code="SCR373",
        slug="texts-of-a-map",
        title="Rows of texts have no batch axis, and end with their answer",
        severity="warn",
        find=texts,
        why="The loader adds the batch axis: a row that has one gives (batch, 1, length). A "
        "generation prompt behind the answer teaches the model to begin another one.",
        fires=(
            "map() of a tokenizer with return_tensors='pt' and without batched=True",
            "apply_chat_template(messages with an answer, add_generation_prompt=True)",
        ),
        fix="Omit return_tensors and add_generation_prompt when training.",
        sources=("transformers-tokenizer",),
        needs=("return_tensors", "add_generation_prompt"),
    ),
    Rule(
        code="SCR374",
        slug="rewards-of-groups",
        title="Groups of answers differ, and their rewards can be computed",
        severity="fail",
        find=rewards,
        why="GRPO calls reward functions with all columns of the data, takes one reward for each "
        "completion, and compares the answers of "
        "one prompt with each other: of one answer, or of equal ones, all advantages are 0.",
        fires=(
            "a reward function of this file without **kwargs, or one that reads the completions of "
            "conversations as texts, or returns one number",
            "num_generations=1, temperature=0, or a batch that is no number of groups",
        ),
        fix="def reward(completions, **kwargs); num_generations that divides the batch.",
        sources=("trl-grpo",),
        needs=("GRPOTrainer", "GRPOConfig", "RLOOTrainer"),
    ),
)
