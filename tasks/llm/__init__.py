"""What every step that asks a language model shares: prompts, chunks, fences, and claims held to what they cite."""
