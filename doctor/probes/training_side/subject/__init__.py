"""What is trained, the small model, a factory or a model directory, and its training steps."""
