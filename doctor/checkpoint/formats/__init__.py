"""One file format each: safetensors, GGUF, torch.save old and new."""
