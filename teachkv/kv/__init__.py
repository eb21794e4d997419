"""KV storage: slots of one sequence, and the caches that batch them."""
