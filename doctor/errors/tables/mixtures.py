"""Packages that were not built for each other, and models of a newer library."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="numpy-of-other-build",
        errors=("ValueError", "ImportError", "AttributeError", "RuntimeError"),
        messages=(r"numpy\.\w{2,30} size changed, may indicate binary incompatibility",
            r"module that was compiled using NumPy 1\.x cannot be run",
            r"numpy\.core\.multiarray failed to import|_ARRAY_API not found",
            r"Numpy is not available"),
        examples=("ValueError: numpy.dtype size changed, may indicate binary incompatibility. "
              "Expected 96 from C header, got 88 from PyObject",
            "A module that was compiled using NumPy 1.x cannot be run in NumPy 2.0.2 as it may "
              "crash.",
            "ImportError: numpy.core.multiarray failed to import",
            "RuntimeError: Numpy is not available"),
        why="A compiled package, or torch itself, was built for another major version of numpy.",
        fix="Bring both to one major version: numpy and the package that the traceback ends in "
            "(python -m pip install --force-reinstall --no-cache-dir PACKAGE), in one environment. "
            "torch before 2.3 needs numpy<2.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip check",), sources=("valis-165",),
    ),
    Cause(id="architecture-unknown",
        errors=("ValueError", "KeyError", "NotImplementedError", "RuntimeError"),
        refines=("missing-key", "absent-in-samples"),
        messages=("but Transformers does not recognize this architecture",
            r"Model architectures? \[.{1,120}\] (?:are|is) not supported",
            r"is not supported in your current \w{3,30} version",
            r"Tokenizer class \w{1,80} does not exist or is not currently imported",
            r"KeyError: '(?:qwen|llama|llava|mllama|gemma|phi\d|phi-|phi3|mistral|ministral|"
            r"mixtral|deepseek|internvl|internlm|glm\d|glm_|chatglm|gpt_oss|olmo|falcon|granite|"
            r"smol|cohere|minicpm|idefics|paligemma|whisper|hunyuan|ernie|kimi|"
            r"minimax)[\w-]{0,30}'"),
        examples=("ValueError: Model architectures ['Qwen3ForCausalLM'] are not supported for "
            "now.",
            "NotImplementedError: Unsloth: gemma-4 is not supported in your current Unsloth "
            "version!",
            "ValueError: Tokenizer class LlamaTokenizer does not exist or is not currently "
            "imported.",
            "KeyError: 'qwen2_vl'"),
        wordings=(
            Wording(r"`?rope_scaling`? must be a dictionary|`rope_scaling`'s \w{1,20} field "
                r"must be",
                "ValueError: `rope_scaling` must be a dictionary with two fields, `type` and "
                "`factor`, got",
                "config.json describes the positions in a form that this transformers does not "
                "know (Llama 3.1 and later, YaRN).",
                "Upgrade transformers (4.43 or newer for Llama 3.1): python -m pip install -U "
                "transformers; in an inference server upgrade the server. Do not edit "
                "rope_scaling by hand: the model then computes other positions."),
            Wording("does not know model_type|has model type `[^`]{1,80}` but Transformers does "
                "not recognize",
                "transformers 4.40.0 does not know model_type 'qwen3' of config.json, which "
                "transformers 4.51.0 wrote",
                "The model is newer than the installed transformers, or its type is written "
                "wrong.",
                "Upgrade transformers, at least to the version that wrote config.json:\npython "
                "-m pip install --upgrade transformers\nIf the newest does not know the type "
                "either, the model needs code of its own: name a factory with --model.",
                ("python -m pip show transformers",),
                owner=Owner.JOB,
                more=("ValueError: The checkpoint you are trying to load has model type `qwen3` "
                    "but Transformers does not recognize this architecture.",))),
        why="The model is newer than the installed library, or names a class whose package "
            "(sentencepiece) is missing.",
        fix="Upgrade the library that refuses it (pip install -U transformers, vllm, unsloth "
            "unsloth_zoo; sentencepiece for tokenizers), or load the model's own code with "
            "trust_remote_code=True after reading it. A tokenizer loads with its class by "
            "itself, too (LlamaTokenizer.from_pretrained; LLaMATokenizer is its old spelling).",
        sources=("comfyui-qwenvl-23", "transformers-auto-config"), owner=Owner.ENVIRONMENT),
    Cause(id="chat-format",
        errors=("ValueError", "UndefinedError", "KeyError", "TemplateError"),
        wordings=(
            Wording(r"tokenizer\.chat_template is not set|does not have a (?:chat template|\{% if "
                r"add_generation_prompt)|[Nn]o "
                r"chat.template is (?:set|defined|provided)|`?chat_template`? is (?:null|None|not "
                r"set)",
                "ValueError: Cannot use apply_chat_template because this processor does not have a "
                    "chat template.",
                "A base model has no format of dialogues, and the data are messages.",
                "Start from the instruct variant, or give the tokenizer a template before training "
                    "(tokenizer.chat_template = ..., clone_chat_template of TRL) and save it with "
                    "the model."),
            Wording(r"UndefinedError: .{1,60} has no (?:attribute|element)",
                "jinja2.exceptions.UndefinedError: 'dict object' has no attribute 'content'",
                "The chat template reads a field that the messages do not have: it expects a "
                    'list of {"role": ..., "content": ...}, and the data use other names (from, '
                    "value) or another nesting.",
                'Rename the fields before the template is applied: {"role": m["from"], "content": '
                    'm["value"]}, with the roles system, user and assistant (axolotl: '
                    "message_property_mappings; LLaMA-Factory: tags). "
                    "tokenizer.apply_chat_template takes one list of messages or a list of such "
                    "lists."),
            Wording(r"(?:Conversation roles must alternate|After the optional system message, "
                r"conversation roles must alternate|System role not supported|Only user(?:, "
                r"assistant)?,? and (?:assistant|tool) roles are supported)",
                "jinja2.exceptions.TemplateError: Conversation roles must alternate "
                    "user/assistant/user/assistant/...",
                "The model's chat template accepts only certain roles in a certain order: two "
                    "messages of one role follow each other, the conversation begins with the "
                    "assistant, or there is a system message.",
                "Join neighbouring messages of one role, put a system message into the first user "
                    "message where the model has none (Gemma, Mistral), drop conversations that "
                    "begin with the assistant; or give the tokenizer another chat_template before "
                    "training.")),
        why="A chat template is missing, or takes messages with other fields or roles.",
        sources=("transformers-processing",),
    ),
)  # fmt: skip
