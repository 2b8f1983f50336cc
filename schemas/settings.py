"""Settings: small typed classes, a sentence a field. From files, then `SLOWWAVE_*`, then the command line.

Which files, and what a project's may say: `settings_files.py`. A field of a section is `SLOWWAVE_<SECTION>__<FIELD>` in
the environment: `SLOWWAVE_PYRAMID__STEP=10`.
"""

import os
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from schemas.context_settings import ContextSettings
from schemas.extract_settings import ExtractSettings
from schemas.llm_settings import LLMSettings
from schemas.settings_files import OF_PROJECT, settings_of_files
from schemas.web_settings import WebSettings

GistStrategy = Literal["off", "extractive", "llm", "truncated"]
Pack = Literal["auto", "coding", "personal"]


@cache
def default_store() -> Path:
    """`data/store` in a checkout of slowwave, else a folder of the user's data."""
    checkout = Path(__file__).resolve().parent.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / "data").is_dir():
        return checkout / "data" / "store"
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return data / "slowwave" / "store"


class Section(BaseModel):
    """A group of settings; an unknown field is an error, not a silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ReadSettings(Section):
    """How transcripts are read."""

    max_line_bytes: int = Field(
        32 * 1024 * 1024, gt=0, description="A longer line is quarantined, never held in memory."
    )
    batch_messages: int = Field(2_000, gt=0, description="Messages held before they are written to the vault.")
    batch_files: int = Field(200, gt=0, description="Finished files whose rows are written together.")
    exclude: tuple[str, ...] = Field(
        (), description="Globs of paths and workspaces that are never read.", json_schema_extra=OF_PROJECT
    )


class ObserveSettings(Section):
    """How claims are picked from conversations."""

    pack: Pack = Field("auto", description="Which categories: coding, personal, or by the look of each session.")
    max_share: float = Field(0.27, gt=0, le=1, description="Words of claims over words said, at most, in one session.")
    min_messages: int = Field(2, ge=1, description="Sessions with fewer spoken messages are skipped, with the reason.")


class BoilerplateSettings(Section):
    """What counts as junk: text that comes back session after session."""

    min_sessions: int = Field(5, ge=0, description="Sessions that hold a line word for word; 0 turns the mask off.")
    min_words: int = Field(8, ge=3, description="Words of a line; shorter ones count together with their neighbours.")


class KeywordSettings(Section):
    """How keywords are picked."""

    top: int = Field(5, ge=0, description="Keywords a claim; 0 turns them off.")
    max_words: int = Field(3, ge=1, le=4, description="Words in a keyword, at most.")
    diversity: float = Field(0.3, ge=0, le=1, description="Weight of difference between keywords (MMR).")


class DedupeSettings(Section):
    """When two claims are one."""

    threshold: float = Field(
        78.0,
        ge=0,
        le=100,
        description="token_sort_ratio, less 3 for each word one side adds in a row, from which two claims are one.",
    )
    candidates: int = Field(10, ge=1, description="Nearest claims by vector that are scored.")


class TopicSettings(Section):
    """How claims gather into topics."""

    threshold: float = Field(0.4, ge=-1, le=1, description="Cosine from which new claims are gathered before sorting.")
    merge_at: float = Field(
        0.18, ge=-1, le=1, description="Mean cosine between two topics' claims that makes them one."
    )
    fold_at: float = Field(0.14, ge=-1, le=1, description="The same where one of the two is small.")
    small: int = Field(3, ge=1, description="Claims under which a topic is small.")
    max_share: float = Field(0.25, gt=0, le=1, description="Share of all claims over which a topic is cut in two.")
    min_to_split: int = Field(40, ge=4, description="Claims there must be before any topic is cut.")
    samples: int = Field(5, ge=1, description="Latest members kept as a topic's samples.")


class PrototypeSettings(Section):
    """Coarse prototypes over claims: centroids that move with what they gather."""

    tau: float = Field(0.4, ge=-1, le=1, description="Cosine to the nearest prototype from which a claim joins it.")
    alpha: float = Field(0.1, gt=0, le=1, description="Weight of a new claim in its prototype's moving average.")
    merge_at: float = Field(0.85, ge=-1, le=1, description="Cosine of two prototypes from which they become one.")
    split_below: float = Field(0.45, ge=-1, le=1, description="Mean cosine to the members under which one is split.")
    split_size: int = Field(12, ge=4, description="Members that a prototype has at least before it is split.")
    max_words: int = Field(40, ge=10, description="Words in a prototype's text.")


class PyramidSettings(Section):
    """Sizes of the summaries' groups."""

    step: int = Field(10, ge=2, description="Members of a group in a topic's pyramid.")
    n_sum: int = Field(6, ge=2, description="Messages under one session summary.")
    sum_window: int = Field(3, ge=0, description="Messages before a group that are read along with it.")
    n_sum_sum: int = Field(3, ge=2, description="Session summaries under one summary of the next level.")
    max_sum_lvl: int = Field(3, ge=1, description="Levels of session summaries below the master summary.")
    max_words: int = Field(60, ge=10, description="Words in a summary.")


class RecallSettings(Section):
    """How memories are found."""

    candidates: int = Field(100, ge=1, description="Rows each index hands to the fusion.")
    rrf_k: int = Field(60, ge=1, description="The constant of reciprocal rank fusion.")
    floor: float = Field(0.7, ge=0, le=1, description="Relevance from which a search answers; 0: always.")
    automatic_floor: float = Field(0.9, ge=0, le=1, description="Relevance of each memory that is put in unasked.")
    refresh_seconds: float = Field(1.0, ge=0, description="Least time between two looks for a newer release.")
    cached_answers: int = Field(200, ge=0, description="Last answers kept locally for when the store is away; 0: none.")
    reranker: str = Field("", description="Who orders the first hits anew: cross-encoder:MODEL, llm:SPEC; empty: none.")
    rerank_top: int = Field(20, ge=2, le=200, description="First hits that a reranker sees; the others stay below.")
    rerank_seconds: float = Field(
        30.0, gt=0, description="Seconds a reranker has for a query; then the answer comes without it."
    )


class StoreSettings(Section):
    """How the store is kept."""

    keep_releases: int = Field(14, ge=1, description="Releases kept on disk for reading and roll-back.")
    compact_fragments: int = Field(20, ge=2, description="A table of more small files is compacted.")


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        env_prefix="SLOWWAVE_",
        env_nested_delimiter="__",
        extra="ignore",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    store: Path = Field(default_factory=default_store, description="Folder of the store; a space is a folder in it.")
    space: str = Field(
        "default", pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="Whose memory; no query crosses it."
    )
    llm: str = Field("off", description="Language model: off, vllm:MODEL, openai:MODEL@URL, or a chain joined by ->.")
    encoder: str = Field(
        "all-MiniLM-L6-v2", description="Sentence-transformers model: local path, installed package or hub name."
    )
    embeddings: bool = Field(True, description="Make vectors; without them recall is full text alone.")
    gists: GistStrategy = Field("extractive", description="How each message is summarised; off costs nothing.")
    redact: bool = Field(True, description="Replace secrets by typed placeholders before anything is stored.")
    model: LLMSettings = LLMSettings()
    extract: ExtractSettings = ExtractSettings()
    read: ReadSettings = ReadSettings()
    boilerplate: BoilerplateSettings = BoilerplateSettings()
    observe: ObserveSettings = ObserveSettings()
    keywords: KeywordSettings = KeywordSettings()
    dedupe: DedupeSettings = DedupeSettings()
    topics: TopicSettings = TopicSettings()
    prototypes: PrototypeSettings = PrototypeSettings()
    pyramid: PyramidSettings = PyramidSettings()
    recall: RecallSettings = RecallSettings()
    context: ContextSettings = ContextSettings()
    web: WebSettings = WebSettings()
    storage: StoreSettings = StoreSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Command line over environment over files over defaults; neither `.env` nor pyproject.toml is read."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, settings_of_files(settings_cls))
