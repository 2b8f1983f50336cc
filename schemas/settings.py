"""Every setting, a section a step, and where each is read from: command line, environment, the user's file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from platformdirs import user_data_path
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from slowwave.schemas.errors import UsageError
from slowwave.schemas.places import find_working_copy
from slowwave.schemas.settings_files import load_file_settings

SPACE_NAME = r"^[a-z0-9][a-z0-9_-]{0,62}$"
"""The form of a space's name. The name is also a folder's, so it must not lead out of the store."""


class Section(BaseModel):
    """A group of settings. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ActiveSettings(Section):
    """Which turns of a running conversation stay in working memory and go into a prompt."""

    recent: int = Field(
        6,
        ge=0,
        description="Latest turns that every prompt has verbatim, if they fit.",
    )
    recent_share: float = Field(
        0.4,
        ge=0,
        le=1,
        description="Share of the conversation's tokens that the latest turns may take.",
    )
    older: int = Field(
        200, ge=0, description="Most older turns that a question retrieves."
    )
    least: float = Field(
        0.0, ge=0, description="Least activation of an older turn that is retrieved."
    )
    recap_share: float = Field(
        0.02,
        ge=0,
        le=0.5,
        description="Share of the older turns' tokens for summaries of turns that do not fit; 0: none.",
    )
    likeness: float = Field(
        1.0, ge=0, description="Weight in activation of the cosine to the question."
    )
    words: float = Field(
        0.6,
        ge=0,
        description="Weight in activation of the question's words; rare words count more.",
    )
    exchange: float = Field(
        0.05,
        ge=0,
        description="Weight in activation of the cosine to the last exchanges.",
    )
    exchange_turns: int = Field(
        4, ge=1, description="Latest turns that count as the last exchanges."
    )
    strength: float = Field(
        0.05, ge=0, description="Weight in activation of a turn's strength."
    )
    recency: float = Field(
        0.05, ge=0, description="Weight in activation of how recent a turn is."
    )
    neighbours: float = Field(
        0.3,
        ge=0,
        le=1,
        description="Share of a turn's activation that spreads to the turns beside it.",
    )
    half_life: float = Field(
        20.0, gt=0, description="Turns after which recency has fallen to one half."
    )
    strength_half_life: float = Field(
        2_000.0, gt=0, description="Turns after which strength has fallen to one half."
    )
    used: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Share of the way to 1 that a turn's strength rises when used.",
    )
    says: float = Field(
        0.6,
        ge=0,
        description="Weight in a new turn's strength of its number of content words.",
    )
    says_full: int = Field(
        16, ge=1, description="Distinct content words that count as 1."
    )
    novelty: float = Field(
        0.2,
        ge=0,
        description="Weight in a new turn's strength of how unlike earlier turns it is.",
    )
    effect: float = Field(
        0.2,
        ge=0,
        description="Weight in a new turn's strength of its effect on long-term memory.",
    )
    capacity: int = Field(
        5_000,
        ge=1,
        description="Most turns in working memory; if there are more, the weakest are removed.",
    )
    pruned: float = Field(
        0.05,
        ge=0,
        lt=1,
        description="Share of the capacity that one pruning removes, so that pruning is rare.",
    )

    @model_validator(mode="after")
    def check_strength(self) -> "ActiveSettings":
        """Refuse weights that are all 0: they give no strength."""
        if self.says + self.novelty + self.effect <= 0:
            raise ValueError(
                "one of says, novelty and effect must be above 0: a turn's strength is computed from them"
            )
        return self


class TalkSettings(Section):
    """How long the answers of a talk are."""

    answer_tokens: int = Field(1_024, ge=1, description="Most tokens of an answer.")


class ContextSettings(Section):
    """How a block of context is packed for a model."""

    budget: int = Field(2_000, ge=0, description="Most tokens of a context block.")
    tokenizer: str = Field(
        "minilm",
        description="minilm, bytes/4, tiktoken:ENCODING, or the path of a model's tokenizer.json or folder.",
    )
    hits: int = Field(
        100, ge=1, description="Messages from recall among which a block is packed."
    )
    briefing_budget: int = Field(
        1_000, ge=0, description="Most tokens of the briefing."
    )
    active: ActiveSettings = ActiveSettings()
    talk: TalkSettings = TalkSettings()


class ExtractSettings(Section):
    """Prompts of extraction, and their sizes."""

    prompts: Path | None = Field(
        None,
        description="Folder with NAME.md and packs/NAME.toml that replace the package's files.",
    )
    chunk_tokens: int = Field(
        3_000, ge=100, description="Most tokens of a transcript in one prompt."
    )
    answer_tokens: int = Field(
        1_536,
        ge=64,
        description="Most tokens of an answer with claims. A cut answer is retried with twice as many.",
    )
    max_claims: int = Field(16, ge=1, le=50, description="Most claims from one chunk.")
    gist_words: int = Field(
        30,
        ge=0,
        description="Words under which a message gets its gist without the model.",
    )


class LLMSettings(Section):
    """Requests to a language model. The API key is not a setting: it stays in the environment."""

    temperature: float = Field(
        0.0,
        ge=0,
        le=2,
        description="Randomness of the answers; 0 takes the likeliest token.",
    )
    seed: int | None = Field(
        0, description="Seed of the sampling, if the engine accepts one."
    )
    repetition_penalty: float = Field(
        1.0,
        gt=0,
        le=2,
        description="Above 1 keeps a small model from repeating itself (vLLM).",
    )
    context_window: int | None = Field(
        None,
        gt=0,
        description="Tokens of prompt and answer; by default the server's, in process 8,192 or the model's.",
    )
    max_tokens: int | None = Field(
        None, ge=1, description="Tokens a night may spend; then it stops cleanly."
    )

    concurrency: int = Field(32, ge=1, description="Requests in flight at one server.")
    timeout: float = Field(
        300.0,
        gt=0,
        description="Most seconds for one answer, from request to last token.",
    )

    gpu_memory: float = Field(
        0.9,
        gt=0,
        le=1,
        description="Share of the GPU's memory that in-process vLLM takes.",
    )
    tensor_parallel: int = Field(
        1, ge=1, description="GPUs that one in-process model uses."
    )
    max_num_seqs: int | None = Field(
        None, ge=1, description="Sequences decoded at once; by default vLLM's own."
    )
    vllm: dict[str, Any] = Field(
        {},
        description="Other options of in-process vLLM's engine, by vLLM's names, as quantization or kv_cache_dtype.",
    )

    usd_per_million_prompt: float = Field(
        0.0, ge=0, description="Price of a million prompt tokens."
    )
    usd_per_million_completion: float = Field(
        0.0, ge=0, description="Price of a million answer tokens."
    )

    def compute_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return the price of these tokens in US dollars, by the prices that are set."""
        return (
            prompt_tokens * self.usd_per_million_prompt
            + answer_tokens * self.usd_per_million_completion
        ) / 1_000_000


EngineName = Literal["searxng", "google", "ddgs"]


class WebSettings(Section):
    """Web search. A query leaves this machine only when `enabled` is set, and never with personal data in it."""

    enabled: bool = Field(
        False,
        description="Search the web if a question needs it. If off, nothing is sent.",
    )
    engines: tuple[EngineName, ...] = Field(
        ("searxng", "google", "ddgs"),
        description="Search engines in the order of use; an engine that is not set up is skipped.",
    )
    searxng_url: str | None = Field(
        None,
        description="Base URL of a SearXNG instance whose JSON format is switched on.",
    )
    google_cx: str | None = Field(
        None, description="Id of a Google Programmable Search Engine."
    )
    results: int = Field(
        3, ge=1, le=10, description="Most results that a question gets."
    )
    seconds: float = Field(
        20.0,
        gt=0,
        description="Most seconds to wait for the web; after that the answer comes without it.",
    )
    pages: bool = Field(
        True,
        description="Fetch the pages found and use their main text. If off, only snippets are used.",
    )
    private_pages: bool = Field(
        False, description="Also fetch pages from private and loopback addresses."
    )
    never_send: tuple[str, ...] = Field(
        (), description="Words and phrases (your name, say) taken out of every query."
    )
    judge: str = Field(
        "",
        description="Model that decides which questions need the web, as in `llm`; empty: the conversation's model.",
    )
    keywords: tuple[str, ...] = Field(
        (),
        description="Words of a question that make `slowwave context` search the web if no model decides.",
    )


ModelTask = Literal["extract", "summaries", "topics", "judge", "talk"]
GistStrategy = Literal["off", "extractive", "llm", "truncated"]


def find_default_store() -> Path:
    """Return the default folder of the store: in the user's data folder."""
    return user_data_path("slowwave", appauthor=False) / "store"


class ModelsSettings(Section):
    """Language models by task, in the forms of `llm`. Empty: the model of `llm`. `--llm` sets one for all."""

    extract: str = Field(
        "", description="Distils claims; also gists, with `gists = llm`."
    )
    summaries: str = Field(
        "", description="Writes the summaries of topics and sessions."
    )
    topics: str = Field(
        "", description="Assigns claims to topics, and describes the topics."
    )
    judge: str = Field("", description="Judges which claims a later claim changes.")
    talk: str = Field("", description="Talks with you (`slowwave talk`).")


class ReadSettings(Section):
    """How transcripts are read."""

    max_line_bytes: int = Field(
        32 * 1024 * 1024,
        gt=0,
        description="Most bytes of a line; a longer line is quarantined without being loaded.",
    )
    exclude: tuple[str, ...] = Field(
        (), description="Globs of paths and projects that are never read."
    )


class ObserveSettings(Section):
    """How claims are picked from conversations."""

    pack: str = Field(
        "auto",
        description="Categories: coding, personal, a pack of your own from `extract.prompts`, or auto, which "
        "decides for each session.",
    )
    max_share: float = Field(
        0.27,
        gt=0,
        le=1,
        description="Share of the words of everyday conversations that become claims; more if they have more content.",
    )


class HabitSettings(Section):
    """Which parts of the agents' work count as habits."""

    exclude: tuple[str, ...] = Field(
        (
            "*.lock",
            "*-lock.json",
            "*-lock.yaml",
            "*.log",
            "*.min.*",
            "node_modules/*",
            "dist/*",
            "build/*",
        ),
        description="Globs of generated files; claims are not linked to them.",
    )


class KeywordSettings(Section):
    """How keywords are picked."""

    top: int = Field(5, ge=0, description="Keywords a claim; 0 turns them off.")


class DedupeSettings(Section):
    """When two claims are merged as duplicates."""

    threshold: float = Field(
        78.0,
        ge=0,
        le=100,
        description="Least token_sort_ratio of duplicates; each word that one side adds in a row subtracts 3.",
    )


class SupersedeSettings(Section):
    """Pairs of claims for which a language model, if one is set, says whether the later changes the earlier."""

    pairs: int = Field(
        2_000,
        ge=0,
        description="Most pairs that the model judges in a night, the likeliest first; 0: none.",
    )
    trust: bool = Field(
        True,
        description="Retire a claim by a model's verdict alone if it quotes the later claim and the old value.",
    )


class PyramidSettings(Section):
    """Sizes of the summaries' groups."""

    step: int = Field(10, ge=2, description="Members of a group in a topic's pyramid.")
    n_sum: int = Field(
        6, ge=2, description="Messages for one session summary without a model."
    )
    sum_tokens: int = Field(
        3_000,
        ge=1,
        description="Tokens of the messages for one session summary by a model.",
    )
    sum_window: int = Field(
        3, ge=0, description="Messages before a group that the model reads with it."
    )
    n_sum_sum: int = Field(
        3, ge=2, description="Session summaries for one summary of the next level."
    )
    max_sum_lvl: int = Field(
        3, ge=1, description="Levels of session summaries below the master summary."
    )

    max_words: tuple[PositiveInt, ...] = Field(
        (60,),
        min_length=1,
        description="Most words of a summary by level; the last is for all above and a session's master.",
    )

    def get_words(self, tier: int) -> int:
        """Return the most words that a summary of a tier may have. Tier -1, the master, has those of the last level."""
        return self.max_words[min(tier, len(self.max_words) - 1)]


class RecallSettings(Section):
    """How memories are found."""

    automatic_floor: float = Field(
        0.9,
        ge=0,
        le=1,
        description="Least relevance of a memory that a hook adds to a prompt.",
    )


class QuotaSettings(Section):
    """Limits of one night of a space. The next night reads the rest. For tokens see `model.max_tokens`."""

    messages: int = Field(
        0,
        ge=0,
        description="New messages after which a night stops opening transcripts; 0: unlimited.",
    )
    bytes: int = Field(
        0,
        ge=0,
        description="Bytes of transcripts after which a night stops opening transcripts; 0: unlimited.",
    )


class RetentionSettings(Section):
    """Days after which the next night forgets what was said; 0: never."""

    messages_days: int = Field(
        0,
        ge=0,
        description="Days after which a message and everything derived from it are forgotten.",
    )
    by_source: dict[str, NonNegativeInt] = Field(
        {}, description="The same by the format's name; overrides messages_days."
    )
    by_project: dict[str, NonNegativeInt] = Field(
        {}, description="The same by project; overrides both."
    )
    talk_days: int = Field(
        0, ge=0, description="The same for conversations in `slowwave talk`."
    )
    notes_days: int = Field(0, ge=0, description="The same for notes.")
    recalls_days: int = Field(
        0,
        ge=0,
        description="Days after which a line is removed from the log of recalls.",
    )
    completions_days: int = Field(
        0,
        ge=0,
        description="Days after which a stored answer of a language model is removed.",
    )
    quarantine_days: int = Field(
        0,
        ge=0,
        description="Days since a file's last change after which excerpts of its unusable lines are removed.",
    )

    @property
    def has_message_limits(self) -> bool:
        """True if some messages are forgotten after a time."""
        each = (self.messages_days, self.talk_days, self.notes_days)
        return any((*each, *self.by_source.values(), *self.by_project.values()))

    @property
    def has_limits(self) -> bool:
        """True if anything is forgotten after a time."""
        return self.has_message_limits or any(
            (self.recalls_days, self.completions_days, self.quarantine_days)
        )


class GateSettings(Section):
    """Bounds on the changes of a night. Beyond them the live release stays until `slowwave promote`."""

    enabled: bool = Field(
        True, description="Hold a night's release back if it exceeds the bounds."
    )
    probes: dict[str, str] = Field(
        {},
        description="Questions, each with words of its answer. A night that loses an answer is held back.",
    )
    max_retired: float = Field(
        0.25,
        ge=0,
        le=1,
        description="Largest share of the claims that one night may retire or merge.",
    )
    max_lost: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Largest share of the claims that one night may withdraw or lose.",
    )
    max_rejected: float = Field(
        0.8,
        ge=0,
        le=1,
        description="Largest share of a model's new claims that may be rejected, as for a quote that nobody said.",
    )
    max_junk: float = Field(
        0.9,
        ge=0,
        le=1,
        description="Largest share of a model's new claims that may be trivial or useless.",
    )
    max_tokens: int = Field(
        0, ge=0, description="Most tokens of models for one release; 0: unlimited."
    )


class StoreSettings(Section):
    """How releases and files of the store are kept."""

    keep_releases: int = Field(
        14, ge=1, description="Newest releases kept on disk for reading and roll-back."
    )
    keep_daily: int = Field(
        14, ge=0, description="Days for which the last release of the day is kept too."
    )
    require_encrypted: bool = Field(
        False, description="Write only if the disk is known to be encrypted (Linux)."
    )
    metrics_file: Path | None = Field(
        None,
        description="File to which each run writes its figures for Prometheus (*.prom).",
    )


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        env_prefix="SLOWWAVE_",
        env_nested_delimiter="__",
        extra="ignore",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    store: Annotated[Path, BeforeValidator(find_working_copy)] = Field(
        default_factory=find_default_store,
        description="Folder of the store, or s3://BUCKET/PREFIX (gs, az); a space is a folder in it.",
    )
    space: str = Field(
        "default",
        pattern=SPACE_NAME,
        description="The space (user or tenant); no query crosses it.",
    )
    aliases: dict[str, str] = Field(
        {},
        description="Old names of projects, each with its current name (`slowwave config alias OLD NEW`).",
    )
    llm: str = Field(
        "off",
        description="Language model: off, vllm:MODEL, openai:MODEL@URL, or a chain joined by >.",
    )
    models: ModelsSettings = ModelsSettings()
    encoder: str = Field(
        "all-MiniLM-L6-v2",
        description="Sentence-transformers model: path, package or hub name; with :8bit in 8 bits; multilingual; or "
        "openai:MODEL@URL.",
    )
    embeddings: bool = Field(
        True, description="Compute vectors. If off, recall searches by full text alone."
    )
    gists: GistStrategy = Field(
        "off",
        description="How each message is summarised in one sentence, for `recent`, `show` and exports.",
    )
    same_day: bool = Field(
        True,
        description="Read a session in the background when it ends (hooks, `talk`). Rules distil it at once. If a "
        "model writes the memory, recall finds the messages at once, and claims wait for the night.",
    )
    resident: bool = Field(
        True,
        description="Keep the memory open for hooks and questions in a process that ends after 20 idle minutes.",
    )
    check_claims: bool = Field(
        True,
        description="Compare claims each night with the git checkouts that they are about.",
    )
    redact: bool = Field(
        True,
        description="Replace secrets by typed placeholders before anything is stored.",
    )
    redact_except: list[str] = Field(
        [],
        description="Masked words that are not secrets. The next night reads the transcripts that still exist again.",
    )
    model: LLMSettings = LLMSettings()
    extract: ExtractSettings = ExtractSettings()
    read: ReadSettings = ReadSettings()
    observe: ObserveSettings = ObserveSettings()
    habits: HabitSettings = HabitSettings()
    keywords: KeywordSettings = KeywordSettings()
    dedupe: DedupeSettings = DedupeSettings()
    supersede: SupersedeSettings = SupersedeSettings()
    pyramid: PyramidSettings = PyramidSettings()
    recall: RecallSettings = RecallSettings()
    context: ContextSettings = ContextSettings()
    web: WebSettings = WebSettings()
    gates: GateSettings = GateSettings()
    storage: StoreSettings = StoreSettings()
    quota: QuotaSettings = QuotaSettings()
    retention: RetentionSettings = RetentionSettings()

    def get_llm(self, task: ModelTask) -> str:
        """Return the language model of a task, in the form of the setting `llm`."""
        return getattr(self.models, task) or self.llm

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        *unread: PydanticBaseSettingsSource,
        **others: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: command line over environment over files over defaults.

        Neither `.env` nor pyproject.toml is read.
        """
        return (
            init_settings,
            env_settings,
            InitSettingsSource(settings_cls, load_file_settings(settings_cls)),
        )


def name_model(llm: str) -> dict[str, Any]:
    """Return the settings that give every task the same language model."""
    return {"llm": llm, "models": dict.fromkeys(get_args(ModelTask), "")}


def make_settings(given: Mapping[str, Any]) -> Settings:
    """Return the settings: the given values, over those of the environment and of files.

    Raises:
        UsageError: a setting can't have its value, or a file can't be read.
    """
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"setting {where}: {first['msg']}, got {first['input']!r}"
        ) from None
