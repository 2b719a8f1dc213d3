"""One module per report format: render(report) -> str."""
