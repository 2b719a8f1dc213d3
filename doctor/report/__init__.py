"""render(report) -> str, one module per format."""
