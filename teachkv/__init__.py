"""teachkv: an LLM inference engine in plain Python, for teaching and audit."""
