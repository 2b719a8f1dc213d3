"""The training of a factory or a model directory as a job that saves, evaluates and continues."""
