"""Models, tokenizers and files that are downloaded or named wrongly."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="model-not-loaded",
        errors=("OSError", "EnvironmentError", "HFValidationError", "EntryNotFoundError",
            "RevisionNotFoundError", "HfHubHTTPError", "RepositoryNotFoundError", "ValueError",
            "TypeError", "Exception", "ImportError", "AttributeError"),
        refines=("file-missing", "value-is-none", "module-without-return", "name-undefined",
            "call-arguments"),
        wordings=(
            Wording("Can't load (?:the )?(?:tokenizer|feature extractor|image processor|"
                "processor|configuration|model) (?:for|of) '",
                "OSError: Can't load tokenizer for 'gpt2'. If you were trying to load it from "
                "'https://huggingface.co/models', make sure you don't have a local directory "
                "with the same name.",
                "Neither the directory nor the hub has these files: a checkpoint without a "
                "tokenizer, a local directory with the name of the model, a wrong name, or no "
                "network.",
                "Check the name and the directory (ls NAME): rename a local directory that is "
                "called like the model, save the tokenizer beside the checkpoint, or take it "
                "from the base model. Without a network set HF_HUB_OFFLINE=1 and load from a "
                "downloaded copy.",
                ("ls -l NAME",)),
            Wording("is not a local folder and is not a valid model identifier",
                "OSError: mistral-8b is not a local folder and is not a valid model identifier "
                "listed on 'https://huggingface.co/models'",
                "No directory has this name, as seen from the working directory, and the hub "
                "has no public repository of it: misspelled, private, or without its owner "
                "before the slash.",
                "For a local model write its directory as the job sees it (an absolute path); "
                "for one of the hub write OWNER/NAME as on its page, and log in for a private "
                "or gated one: `hf auth login`, or HF_TOKEN in the job's environment.",
                ("hf auth whoami",)),
            Wording("Repo id must (?:be in the form|use alphanumeric)",
                "huggingface_hub.errors.HFValidationError: Repo id must be in the form "
                "'repo_name' or 'namespace/repo_name': '/data/models/llama'. Use `repo_type` "
                "argument if needed.",
                "The text is a path that does not exist on this machine, so that it is taken "
                "for the name of a repository.",
                "Correct the path: relative ones are found from the directory in which the "
                "command starts, and a container sees only what is mounted. It must hold "
                "config.json (for an adapter: adapter_config.json).",
                ("ls -ld PATH",
                    "pwd")),
            Wording("(?:Entry|Revision|Repository)NotFoundError|404 Client Error",
                "huggingface_hub.utils._errors.EntryNotFoundError: 404 Client Error. (Request "
                "ID: Root=1)",
                "The hub has no such file, revision or repository under that name, or the "
                "repository is private and there is no token.",
                "Open the address in the message in a browser: compare the spelling of "
                "repository, revision and file (weights may be .safetensors only: "
                "use_safetensors=True). For a private one log in with hf auth login."),
            Wording("Unrecognized model in .{1,300}Should have a `?model_type",
                "ValueError: Unrecognized model in ./out. Should have a `model_type` key in its "
                "config.json, or contain one of the following strings in its name: albert",
                "config.json has no model_type, as those of old models and those written by "
                "hand; or there is none of transformers: the directory holds an adapter, a "
                "checkpoint of another framework, or a part of a repository.",
                'Where config.json is there, write its family into it ("model_type": "bert"), or '
                "load the model with that family's own class (BertModel.from_pretrained). Else "
                "give the directory with config.json. For an adapter load the base model first, "
                "then PeftModel.from_pretrained(base, directory); convert checkpoints of "
                "Megatron, Lightning or DeepSpeed first."),
            Wording(r"Error no file named [^\n]{0,160}found in directory|does not appear to "
                r"have a file",
                "OSError: Error no file named pytorch_model.bin, model.safetensors found in "
                "directory ./out",
                "The directory holds no weights of a whole model: it is the output directory "
                "above the checkpoints, holds an adapter or shards of DeepSpeed or FSDP, or the "
                "save was not finished.",
                "ls it. checkpoint-N inside: name that. adapter_config.json: load the base "
                "model and PeftModel.from_pretrained. global_stepN: python zero_to_fp32.py. "
                "pytorch_model_fsdp_0: accelerate merge-weights. Only other names (.ckpt, "
                ".pth): load them with the program that wrote them; of the Hub take the repository "
                "in the form of transformers (-hf, not GGUF).",
                ("ls -l DIRECTORY",
                    "doctor scan DIRECTORY")),
            Wording(r"Can't find 'adapter_config\.json' at",
                "ValueError: Can't find 'adapter_config.json' at 'out/checkpoint-500'",
                "The path holds no adapter: it is the output directory above the checkpoints, a "
                "full model, a path that does not exist (and is taken for a repository), or the "
                "adapter was never saved.",
                "Give the directory with adapter_config.json and adapter_model.safetensors "
                "(often out/checkpoint-N); load a full model with "
                "AutoModelForCausalLM.from_pretrained; save an adapter with "
                "model.save_pretrained(directory).",
                ("find . -name adapter_config.json",)),
            Wording(r"TypeError: not a string\b",
                "TypeError: not a string",
                "A tokenizer was loaded from a directory without its vocabulary file "
                "(tokenizer.model, vocab.json), so that its path is None.",
                "Copy the tokenizer's files from the base model into the directory "
                "(tokenizer.save_pretrained(directory)), or load the tokenizer from the base "
                "model's name."),
            Wording("No valid checkpoint found in output directory|Can't find a valid "
                "checkpoint at",
                "ValueError: No valid checkpoint found in output directory (out)",
                "resume_from_checkpoint asks for a checkpoint, and the directory has none that "
                "is complete.",
                'Give the path of one (resume_from_checkpoint="out/checkpoint-500"), or pass '
                "get_last_checkpoint(output_dir), which is None in the first run. A checkpoint "
                "needs trainer_state.json and the weights or the adapter.",
                ("ls -d out/checkpoint-*",)),
            Wording("Unrecognized configuration class .{1,300} for this kind of AutoModel",
                "ValueError: Unrecognized configuration class <class "
                "'transformers.models.qwen2_vl.configuration_qwen2_vl.Qwen2VLConfig'> for this "
                "kind of AutoModel: AutoModelForCausalLM.",
                "This Auto class has no model for that configuration: the model does another "
                "task (images, speech, encoder and decoder), or it is newer than the library.",
                "Use the class that the model's card names (AutoModelForImageTextToText for "
                "images and text, AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq), or upgrade "
                "transformers if it should be listed.",
                ("python -m pip show transformers",)),
            Wording("contains custom code which must be executed to correctly load|requires you "
                "to execute the (?:configuration|model|tokenizer|modeling) file in that repo",
                "ValueError: The repository for org/model contains custom code which must be "
                "executed to correctly load the model.",
                "The model's classes are Python files in its repository, which are run only if "
                "you agree.",
                "Read those files, then pass trust_remote_code=True with a fixed "
                "revision=COMMIT; or use a version of the model that transformers contains."),
            Wording("data did not match any variant of untagged enum",
                "Exception: data did not match any variant of untagged enum ModelWrapper at "
                "line 1251003 column 3",
                "tokenizer.json was written by a newer version of tokenizers than the one "
                "installed.",
                "Upgrade both (pip install -U tokenizers transformers); where the code needs an "
                "old transformers, take tokenizer.json from a revision of that time, or save it "
                "again with the old version.",
                ("python -m pip show tokenizers transformers",),
                owner=Owner.ENVIRONMENT),
            Wording(r"AddedToken\(\) got multiple values for keyword argument 'special'",
                "TypeError: tokenizers.AddedToken() got multiple values for keyword argument "
                "'special'",
                "The tokenizer's files state the key special of a token, which this transformers "
                "sets itself.",
                "Upgrade transformers (5.2 fails on every such token). If it remains, delete "
                "special from the tokens of extra_special_tokens in tokenizer_config.json and "
                "special_tokens_map.json of a copy.",
                ("python -m pip show tokenizers transformers",),
                owner=Owner.ENVIRONMENT, sources=("transformers-44062",)),
            Wording("Couldn't instantiate the backend tokenizer from one of|Converting from "
                "(?:Tiktoken|SentencePiece and Tiktoken) failed|Cannot instantiate this "
                "tokenizer from a slow version|variable 'sentencepiece_model_pb2'",
                "ValueError: Couldn't instantiate the backend tokenizer from one of: (1) a "
                "`tokenizers` library serialization file",
                "The model has no tokenizer.json, and the package that reads its vocabulary is "
                "missing, or the vocabulary's file is.",
                "Install sentencepiece, tiktoken and protobuf, and restart the interpreter. If "
                "that does not help, check that tokenizer.model is in the directory and no Git "
                "LFS pointer; or pass use_fast=False.",
                ("python -m pip install sentencepiece tiktoken protobuf",),
                owner=Owner.ENVIRONMENT,
                more=("UnboundLocalError: local variable 'sentencepiece_model_pb2' referenced "
                    "before assignment",)),
            Wording("'NoneType' object has no attribute '(?:image_processor|tokenizer|"
                "feature_extractor|video_processor|image_seqlen|chat_template|model_max_length|"
                "pad_token(?:_id)?|eos_token(?:_id)?|tokenize|encode|decode|image_token)'",
                "AttributeError: 'NoneType' object has no attribute 'image_processor'",
                "The tokenizer or the processor of the model was not loaded, so that the "
                "program holds None: its files are not beside the weights, or the installed "
                "transformers does not know it.",
                "Copy the files of the original model into the model's directory "
                "(preprocessor_config.json, tokenizer files, chat_template), which a trainer "
                "does not always save; try AutoProcessor.from_pretrained(PATH) alone to see its "
                "error; upgrade transformers and the training program for a newer model.",
                ("ls -l MODEL",))),
        why="The model, its configuration or its tokenizer cannot be loaded from this name or "
            "directory.",
        sources=("transformers-configuration", "transformers-auto-model",
            "transformers-remote-code", "sentence-transformers-1105")),
    Cause(id="hub-transfer-failed",
        refines=("hf-offline",),
        errors=("RuntimeError", "OSError", "ChunkedEncodingError", "ReadTimeout", "HfHubHTTPError",
            "HTTPError"),
        messages=(r"CAS (?:service|Client) ?error",
            r"Consistency check failed: file should be of size",
            r"(?:ChunkedEncodingError|IncompleteRead\(|ReadTimeoutError|Read timed out|50[0234] "
              r"Server Error)(?!.{0,900}(?:thrown while requesting|\n?Trying to resume))"),
        examples=("RuntimeError: Data processing error: CAS service error : ReqwestMiddleware "
              "Error",
            "OSError: Consistency check failed: file should be of size 4943162336 but has size "
              "1020000",
            "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='huggingface.co', "
              "port=443): Read timed out. (read timeout=10)"),
        wordings=(
            Wording(r"429 (?:Client Error|Too Many Requests)|Too Many Requests for url|We had to "
                r"rate limit you",
                "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for "
                    "url: https://huggingface.co/api/models/a",
                "The hub limits requests per user and address: every rank and worker of a cluster "
                    "asks on its own.",
                "Log in (HF_TOKEN in the job's environment), which raises the limit, and ask from "
                    "fewer workers. Download once on one node into a "
                    "shared HF_HOME, then run with HF_HUB_OFFLINE=1; let rank 0 load first.",
                ("export HF_HUB_OFFLINE=1",)),
            Wording(r"ConnectionError: Server Disconnected|ServerDisconnectedError|"
                    r"ClientPayloadError|ClientConnectorError"
                    r"(?!.{0,80}(?:localhost|127\.0\.0\.1))",
                "ConnectionError: Server Disconnected",
                "A data set that is streamed lost its server, and the tries were used up. Other "
                    "ranks then wait for this one.",
                "Resume from the last checkpoint. Download the data before (hf download "
                    "--repo-type dataset REPOSITORY), or allow more tries: "
                    "datasets.config.STREAMING_READ_MAX_RETRIES and "
                    "STREAMING_READ_RETRY_INTERVAL; fewer workers per node ask less."),),
        why="A download from the hub broke off: the network, a proxy, the transfer service (Xet), "
            "or a full disk.",
        fix="Download before the training and again until it is complete: hf download REPOSITORY "
            "continues a broken one. Set HF_HUB_DISABLE_XET=1 to take the plain transfer, "
            "HF_HUB_DOWNLOAD_TIMEOUT=60 for a slow network, and free the disk of HF_HOME. A 5xx "
            "error is the server's: wait and try again.",
        owner=Owner.ENVIRONMENT, retry="again",
        commands=("HF_HUB_DISABLE_XET=1 hf download REPOSITORY", "df -h ~/.cache/huggingface"),
        sources=("hub-download",),
    ),
    Cause(id="storage-credentials-missing",
        errors=("NoCredentialsError", "DefaultCredentialsError"),
        messages=(r"NoCredentialsError|Unable to locate credentials|DefaultCredentialsError|"
              r"\(AccessDenied\)|InvalidAccessKeyId|ExpiredToken|SignatureDoesNotMatch|Forbidden: "
              r"403 \w{3,6} https?://storage\.googleapis|does not have storage\.\w{4,20}\.\w{3,10} "
              r"access",),
        examples=("botocore.exceptions.NoCredentialsError: Unable to locate credentials",),
        why="The bucket refuses the job: no credentials on this node, expired ones, or without the "
            "right for this path.",
        fix="Give the job credentials (an instance role or service account; AWS_PROFILE or "
            "AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS in its environment), with read and "
            "write on the path, that last as long as the run.",
        owner=Owner.ENVIRONMENT,
        commands=("aws sts get-caller-identity",),
    ),
)  # fmt: skip
