"""What the configuration beside the weights says of the model, and what the tensors have."""

from __future__ import annotations

from doctor._util.records import Section


class Size(Section, frozen=True, kw_only=True):
    """A size that config.json gives, and that of the tensors."""

    quantity: str
    """What is counted: "layers", "vocabulary", "patch size"."""
    configured: tuple[int, ...]
    """Every value that the configuration allows."""
    stored: int
    tensor: str
    """The tensor or the row of layers that shows it."""
    entry: str = ""
    """The entry of config.json that decides it, "" where several do."""
    fitting: int | None = None
    """Its value that would agree with the tensors."""
    absent: bool = False
    """config.json does not have the entry, so that a default counts."""


class Quantization(Section, frozen=True, kw_only=True):
    """How the weights are quantized, by config.json and by the tensors."""

    method: str = ""
    """quant_method of config.json: gptq, awq, fp8, ..."""
    described: bool = False
    """config.json or a file of the quantizer beside it says how to read the weights."""
    packed: int = 0
    """Weights in the form of a quantizer."""
    example: str = ""
    """One of them."""
    unscaled: tuple[str, ...] = ()
    """Of these, those whose scales are in no tensor; the first ten."""
    unscaled_count: int = 0


class ModelConfig(Section, frozen=True, kw_only=True):
    """The model, by config.json and adapter_config.json; None where they do not name it."""

    model_type: str | None = None
    text_model_type: str | None = None
    """model_type of text_config, where the model has several parts."""
    dtype: str | None = None
    """dtype or torch_dtype of config.json."""
    quantized: bool = False
    adapter: str | None = None
    """peft_type of adapter_config.json: LORA, IA3, ..."""
    unreadable: str = ""
    """Why config.json could not be read; "" where it was, or is not there."""
    sizes: tuple[Size, ...] = ()
    """Those that could be compared with the tensors."""
    head_missing: bool = False
    """config.json says that the output head is not tied to the embedding, and no tensor is it."""
    task_without_head: str = ""
    """The class that config.json names, where the tensors are those of the model below it only."""
    separate_head: str = ""
    """A head with values of its own although config.json ties it to the embedding."""
    wrapper: str = ""
    """What DistributedDataParallel, torch.compile, FSDP, peft or a program of one's own put into
    the names of tensors beside a config.json: "module."."""
    lacks_config: bool = False
    """Files of from_pretrained's names lie beside others of it, and no config.json."""
    lacks_embedding: bool = False
    """A GGUF file of a language model has no embedding of tokens."""
    wrapped: int = 0
    """Tensors whose names have it."""
    partly: str = ""
    """What a wrapper put before some of the names, and not before those of the layers next to
    them."""
    partly_wrapped: int = 0
    partly_example: str = ""
    missing: tuple[str, ...] = ()
    """Tensors that the model of config.json has and no file holds; the first ten."""
    missing_count: int = 0
    ignored: tuple[str, ...] = ()
    """Tensors that the model of config.json does not have; the first ten."""
    ignored_count: int = 0
    quantization: Quantization | None = None
    """None: nothing is quantized, nor said to be."""
    empty_tensors: int = 0
    """Tensors without any element, beside a config.json."""
    source: str = "config.json"
    """What describes the model: config.json, or the header of a GGUF file."""
    unmatched: dict[str, int] = {}
    """Setting in a torch file, "hyper_parameters.num_classes" -> its number, of which no tensor has
    a dimension."""
    last_matrix: tuple[str, int] = ("", 0)
    """The last matrix of such a file, and its rows."""
    token_ids: dict[str, int] = {}
    """Token in the header of a GGUF file -> its number: eos_token_id."""
    embedding_rows: int | None = None
    """Rows of the largest input embedding among the tensors."""


class LoraFit(Section, frozen=True, kw_only=True):
    """The configuration of a LoRA adapter and its tensors."""

    rank: int | None = None
    """r of adapter_config.json."""
    other_ranks: tuple[int, ...] = ()
    """Those of rank_pattern."""
    stored_ranks: dict[str, int] = {}
    """Rank -> tensors lora_A that have it."""
    alpha: float | None = None
    targets: int = 0
    """Names in target_modules."""
    absent_targets: tuple[str, ...] = ()
    """Of these, the names of which there is no tensor."""
    strangers: tuple[str, ...] = ()
    """Modules with tensors that target_modules does not name; the first ten."""
    unsaved: tuple[str, ...] = ()
    """The names in modules_to_save where there is a tensor of none of them; the first ten."""
    empty: tuple[str, ...] = ()
    """Tensors without a value."""
    misnamed: str = ""
    """A tensor whose name peft does not look for, as it begins otherwise or names the adapter."""
    foreign: str = ""
    """A module with a further name between the number of its layer and self_attn, as all have."""
    incomplete: tuple[str, ...] = ()
    """Modules with one of the two factors alone; the first ten."""
    others: int = 0
    """Tensors that are no factors of LoRA, nor of modules_to_save."""
    b_tensors: int = 0
    zero_b: int | None = None
    """Tensors lora_B that are all zeros; None: not all could be read."""
    zero_names: tuple[str, ...] = ()
    """The first ten of them."""
    largest_b: float | None = None
    """The largest absolute value in the first bytes of the tensors lora_B; None: not all could be
    read."""


class ChangedSetting(Section, frozen=True, kw_only=True):
    """An entry of config.json that shapes what the weights compute, and shows in no tensor."""

    name: str
    before: str
    """Its value in the model that the weights come from, as JSON."""
    now: str
