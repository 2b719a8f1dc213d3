"""Whether a merged model is its base plus what the adapters add: streamed and compared in bulk."""
