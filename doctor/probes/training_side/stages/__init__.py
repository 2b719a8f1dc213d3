"""What the doctor requests, one module per stage; torch_stages receives the requests."""
