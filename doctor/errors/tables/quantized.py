"""Models in 4 or 8 bits, models that are spread or offloaded, adapters on them."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="quantized-training",
        errors=("ValueError", "Exception", "RuntimeError", "ImportError"),
        refines=("order-of-dimensions", "layer-size", "linear-unflattened"),
        wordings=(
            Wording("The model you want to train is loaded in 8-bit precision",
                "ValueError: The model you want to train is loaded in 8-bit precision.  if you "
                "want to fine-tune an 8-bit model, please make sure that you have installed "
                "`bitsandbytes>=0.37.0`.",
                "The Trainer does not accept this quantized model: bitsandbytes is missing or "
                "too old, or the quantization of the checkpoint cannot be trained.",
                "Install a current bitsandbytes (pip install -U bitsandbytes) and attach an "
                "adapter, load with BitsAndBytesConfig(load_in_4bit=True), or start from the "
                "checkpoint that is not quantized.",
                ("python -m pip show bitsandbytes transformers peft",)),
            Wording("must be an? AOBaseConfig instance",
                "TypeError: quant_type must be an AOBaseConfig instance, got str",
                "Newer releases of diffusers and torchao take a quantization as an object of "
                "torchao, no longer by its name.",
                "Pass the object: TorchAoConfig(Int8WeightOnlyConfig()); its class is in "
                "torchao.quantization, as Float8WeightOnlyConfig and others are. Where a program "
                "passes the name, upgrade the program, or install the diffusers that its "
                "requirements name.",
                ("python -m pip show diffusers torchao",),
                sources=("diffusers-13291",)),
            Wording("fine-tuning on purely quantized models",
                "ValueError: You cannot perform fine-tuning on purely quantized models. Please "
                "attach trainable adapters on top of the quantized model",
                "Weights in 4 or 8 bits cannot be trained.",
                "Attach an adapter (get_peft_model(model, LoraConfig(...)), or peft_config= of "
                "the trainer) before the Trainer is built, or load the model without "
                "quantization.",
                owner=Owner.JOB),
            Wording(r"`?run_compressed`? is only supported for inference|(?:model|checkpoint|"
                r"weights)\b[^\n]{0,80}(?:compressed.tensors|gptq|awq|fp8|mxfp4)[^\n]{0,80}(?:is "
                r"not trainable|not support training|cannot be trained)|(?:compressed.tensors|gptq|"
                r"awq|fp8|mxfp4)[^\n]{0,30} (?:model|checkpoint)s?\b[^\n]{0,60}(?:not trainable|"
                r"not support training|cannot be trained)",
                "ValueError: `run_compressed` is only supported for inference; the model is "
                "quantized with compressed-tensors and is not trainable.",
                "The checkpoint was quantized for inference, in a format whose layers pass no "
                "gradient on.",
                "Train the checkpoint that is not quantized (the model it was made from), or that "
                "one with BitsAndBytesConfig(load_in_4bit=True) and an adapter, and quantize the "
                "result. Where the format can be unpacked: "
                "CompressedTensorsConfig(run_compressed=False), or dequantize=True.",
                owner=Owner.JOB),
            Wording("Cannot merge LORA layers when the model is loaded in 8-bit",
                "ValueError: Cannot merge LORA layers when the model is loaded in 8-bit mode",
                "This version of PEFT cannot add an adapter to weights that are stored in 8 "
                "bits.",
                "Load the base in 16 bits (dtype=torch.bfloat16, without load_in_8bit), attach "
                "the adapter with PeftModel.from_pretrained, and merge there; newer PEFT merges "
                "into 8 bits, with rounding.",
                ("python -m pip show peft",),
                owner=Owner.JOB),
            Wording("cublasLt ran into an error",
                "Exception: cublasLt ran into an error!",
                "The 8-bit product of bitsandbytes failed: the GPU or this CUDA library does "
                "not support it for these sizes, or its memory is full.",
                "Train in 4 bits (load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16) in "
                "place of 8, upgrade bitsandbytes, and lower the batch if the GPU is nearly "
                "full.",
                ("python -m bitsandbytes",)),
            Wording("Loading a quantized checkpoint into non-quantized Linear8bitLt",
                "RuntimeError: Loading a quantized checkpoint into non-quantized Linear8bitLt "
                "is not supported. Please call module.cuda() before module.load_state_dict()",
                "A state dict of quantized weights is loaded into 8-bit layers that are not on "
                "the GPU yet, or by load_best_model_at_end into a model that was moved.",
                "Save and load the adapter only (model.save_pretrained of PEFT), set "
                "load_best_model_at_end=False for a model in 8 bits, or call model.cuda() "
                "before load_state_dict.",
                owner=Owner.JOB),
            Wording("[Bb]itsandbytes was compiled without GPU support",
                "The installed version of bitsandbytes was compiled without GPU support.",
                "bitsandbytes loaded its library for the CPU: torch sees no GPU, or the "
                "installed release has none for torch's CUDA.",
                "If torch.cuda.is_available() is False, correct that first. Else reinstall: "
                "python -m pip install -U --force-reinstall bitsandbytes, in a release for "
                "torch's CUDA version (0.45 or newer for CUDA 12.8 and Blackwell).",
                ("python -m bitsandbytes",)),
            Wording(r"cannot be multiplied \(\d{1,9}x\d{1,9} and 1x\d{5,10}\)|cannot be "
                r"multiplied \(\d{1,9}x\d{1,9} and \d{5,10}x1\)",
                "RuntimeError: mat1 and mat2 shapes cannot be multiplied (44x6656 and "
                "1x22151168)",
                "A weight of 1 x many numbers is a packed 4-bit weight of bitsandbytes that an "
                "ordinary matrix product got: a layer that does not know that it is quantized.",
                "Load with BitsAndBytesConfig(load_in_4bit=True) and let PEFT wrap its own "
                "4-bit layers: upgrade peft, bitsandbytes and transformers together, do not "
                "copy or merge weights by hand, and do not shard a quantized model with ZeRO-3.",
                ("python -m pip show peft bitsandbytes transformers",),
                owner=Owner.JOB,
                more=("RuntimeError: mat1 and mat2 shapes cannot be multiplied (1024x4096 and "
                    "8388608x1)",)),
            Wording("quantization requires .{1,60}`pip install",
                "ImportError: Using `bitsandbytes` 4-bit quantization requires bitsandbytes: "
                "`pip install -U bitsandbytes>=0.46.1`",
                "config.json quantizes the weights with a package that the interpreter lacks.",
                "Install the package that the message names into the training environment, or "
                "omit --weights: the layers are then built without quantization.")),
        why="Weights of 4 or 8 bits are frozen: adapters on them train, and are merged and "
            "saved apart from them.",
        sources=("transformers-trainer-utils", "transformers-bnb"), owner=Owner.ENVIRONMENT),
    Cause(id="quantized-model-moved",
        errors=("ValueError", "RuntimeError"),
        messages=(r"`?\.to`? is not supported for `?(?:4-bit|8-bit)",
            r"Calling `?\w{2,8}\(\)`? is not supported for `?(?:4-bit|8-bit)",
            r"cannot cast a (?:bitsandbytes|GPTQ) model in a new `?dtype",
            r"All input tensors need to be on the same GPU, but found some",
            r"loaded in .{1,40}\bprecision on (?:a different device than the one|multiple dev)"),
        examples=("ValueError: `.to` is not supported for `4-bit` or `8-bit` bitsandbytes models. "
              "Please use the model as it is, since the model has already been set to the correct "
              "devices and casted to the correct `dtype`.",
            "ValueError: Calling `cuda()` is not supported for `4-bit` or `8-bit` quantized "
              "models.",
            "ValueError: You cannot cast a bitsandbytes model in a new `dtype`.",
            "RuntimeError: All input tensors need to be on the same GPU, but found some tensors to "
              "not be on a GPU: [(torch.Size([1, 2097152]), device(type='cpu'))]",
            "ValueError: You can't train a model that has been loaded in 8-bit precision on a "
              "different device than the one you're training on.",
            "ValueError: You can't train a model that has been loaded in 8-bit or 4-bit precision "
              "on a different device than the one you're training on."),
        wordings=(
            Wording(r"Some modules are dispatched on the CPU or the disk",
                "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you "
                    "have enough GPU RAM to fit the quantized model.",
                'device_map="auto" found too little free GPU memory and put layers on the CPU, '
                    "which quantized models do not allow.",
                "Free the GPU (other processes, an earlier model of the notebook), and load "
                    'with device_map={"": 0}, which fails with a plain out-of-memory if it does '
                    'not ' "fit; then take 4 bits, a smaller model or another GPU. "
                    "llm_int8_enable_fp32_cpu_offload=True is for inference.",
                ("nvidia-smi",), owner=Owner.ENVIRONMENT),
            Wording(r"You (?:can't|shouldn't) move a model that has some modules offloaded|You "
                r"can't train a model .{0,80}(?:offloaded|cpu or disk)|had weights offloaded to "
                r"the disk\. Please provide an `?offload_folder",
                "RuntimeError: You can't move a model that has some modules offloaded to cpu or "
                    "disk.",
                'device_map="auto" put a part of the model on the CPU or the disk because the '
                    "GPUs' free memory was too small; such a model can be neither moved nor "
                    "trained.",
                'For training load it whole on the GPU (device_map={"": local_rank}, '
                    "dtype=torch.bfloat16, 4 bits with an adapter), free other memory first, or "
                    'shard it with FSDP or ZeRO-3. For inference alone give '
                    'offload_folder="offload".',
                ("nvidia-smi",))),
        why="A model in 4 or 8 bits is placed and cast when it is loaded; something moves it once "
            "more: model.to(), .half(), accelerate, or an older accelerate than transformers "
            "expects.",
        fix="Remove .to(), .cuda() and .half() on the model, choose the GPU at loading with "
            'device_map={"": torch.cuda.current_device()}, and upgrade accelerate, transformers '
            'and ' "bitsandbytes together.",
        sources=("llama-cookbook-333", "peft-414"),
    ),
)  # fmt: skip
