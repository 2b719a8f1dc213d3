"""Opening what is untrusted: local files, remote byte ranges, file types."""
