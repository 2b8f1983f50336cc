"""What a language model is asked for, and how much at once: one section of the settings (`extract`).

Which model is `SLOWWAVE_LLM`, how it is asked is `schemas/llm_settings.py`. None of this matters without a model.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class ExtractSettings(BaseModel):
    """What a language model is asked for, and how much at once."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompts: Path | None = Field(
        None, description="Folder whose NAME.md and packs/NAME.toml are taken instead of those that ship."
    )
    pack: str = Field("", description="Pack of claims' categories for every session; empty: by `observe.pack`.")
    chunk_tokens: int = Field(3_000, ge=100, description="Tokens of a transcript under one prompt, at most.")
    overlap_tokens: int = Field(200, ge=0, description="Tokens of a chunk that the next one begins with, at most.")
    answer_tokens: int = Field(1_536, ge=64, description="Tokens of an answer with claims; a cut one gets twice that.")
    max_claims: int = Field(12, ge=1, le=50, description="Claims from one chunk, at most.")
    quote_score: float = Field(90.0, ge=50, le=100, description="Likeness from which a quote stands in its message.")
    gist_words: int = Field(30, ge=0, description="Messages of fewer words get their gist without the model.")
    batch_claims: int = Field(25, ge=1, le=100, description="Claims assigned to topics under one prompt.")
    topics_shown: int = Field(30, ge=1, description="Topics a claim may be assigned to under one prompt, the nearest.")
    purpose_samples: int = Field(10, ge=1, description="Random claims a topic's purpose is written from.")
