"""How a prompt block is packed, and how a running conversation keeps what matters: two sections of the settings."""

from pydantic import BaseModel, ConfigDict, Field


class ActiveSettings(BaseModel):
    """What of a running conversation stays in mind. Strengths and scores are 0 to 1 before they are weighted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    capacity: int = Field(200, ge=1, description="Turns kept; beyond it the ones with the lowest score go.")
    recent: int = Field(6, ge=0, description="Latest turns that are always selected first.")
    half_life: float = Field(20.0, gt=0, description="Turns after which activation has fallen to one half.")
    boost: float = Field(0.6, ge=0, le=1, description="Share of the way to 1 that a turn like the query is lifted.")
    boost_from: float = Field(0.25, ge=0, lt=1, description="Cosine to the query from which a turn is lifted.")
    novelty: float = Field(0.4, ge=0, description="Weight of novelty in a trace's strength.")
    entities: float = Field(0.3, ge=0, description="Weight of names, numbers and code in a trace's strength.")
    effect: float = Field(0.3, ge=0, description="Weight of the effect on long-term memory in a trace's strength.")
    entities_full: int = Field(4, ge=1, description="Distinct names, numbers and codes that count as 1.")
    keep_activation: float = Field(0.5, ge=0, description="Weight of activation in the score that pruning goes by.")
    keep_strength: float = Field(0.5, ge=0, description="Weight of strength in the score that pruning goes by.")


class ContextSettings(BaseModel):
    """How a block of context is packed for a model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    budget: int = Field(2_000, ge=0, description="Tokens of a context block, at most.")
    tokenizer: str = Field(
        "minilm", description="minilm, bytes/4, tiktoken:ENCODING, or the path of a model's tokenizer.json or folder."
    )
    web_share: float = Field(0.2, ge=0, description="Part of the budget for web results; what is not used moves on.")
    memory_share: float = Field(0.5, ge=0, description="Part of the budget for memories.")
    conversation_share: float = Field(0.3, ge=0, description="Part of the budget for the current conversation.")
    hits: int = Field(50, ge=1, description="Messages that recall hands to the packing.")
    sessions: int = Field(5, ge=1, description="Most relevant sessions that are read whole.")
    session_messages: int = Field(400, ge=1, description="Messages of one session that are looked at, around its hits.")
    briefing_budget: int = Field(1_000, ge=0, description="Tokens of the briefing, at most.")
    active: ActiveSettings = ActiveSettings()
