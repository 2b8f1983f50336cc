"""Shared by all steps that use a language model: prompts, chunks, fences, and the checks of claims against quotes."""
