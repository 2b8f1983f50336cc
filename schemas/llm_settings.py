"""How a language model is asked: one section of the settings, shared by every engine.

Which engine is `SLOWWAVE_LLM` (see `slowwave/engines/select.py`); this section says how.
"""

from pydantic import BaseModel, ConfigDict, Field


class LLMSettings(BaseModel):
    """How a language model is asked. The API key is never a setting: it stays in the environment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float = Field(0.0, ge=0, le=2, description="Randomness of the answers; 0 takes the likeliest token.")
    top_p: float = Field(1.0, gt=0, le=1, description="Share of the likeliest tokens that are drawn from.")
    seed: int | None = Field(0, description="Seed of the draw, where the engine takes one.")
    repetition_penalty: float = Field(1.0, gt=0, le=2, description="Above 1 discourages repetition (vLLM only).")
    context_window: int | None = Field(None, gt=0, description="Tokens of prompt and answer; by default the model's.")
    chunk: int = Field(2_000, ge=1, description="Requests handed to in-process vLLM in one call.")
    cut_retries: int = Field(1, ge=0, le=3, description="Times a cut answer is asked for again, doubled.")
    max_tokens: int | None = Field(None, ge=1, description="Tokens a night may spend; then it stops cleanly.")

    concurrency: int = Field(32, ge=1, description="Requests in flight at one server.")
    timeout: float = Field(300.0, gt=0, description="Seconds one answer may take in all, however slowly it drips.")
    retries: int = Field(5, ge=0, description="Times a request is sent again after 429, 5xx or a reset.")
    patience: float = Field(180.0, ge=0, description="Seconds without any live server before a night gives it up.")
    api_key_env: str = Field("SLOWWAVE_LLM_API_KEY", description="Name of the variable that holds the server's key.")
    tokenizer: str | None = Field(None, description="Folder of the server model's tokenizer, to count as it does.")

    gpu_memory: float = Field(0.9, gt=0, le=1, description="Share of the GPU's memory that in-process vLLM takes.")
    tensor_parallel: int = Field(1, ge=1, description="GPUs one in-process model is spread over.")
    max_num_seqs: int | None = Field(None, ge=1, description="Sequences decoded at once; by default vLLM's own.")
    enforce_eager: bool | None = Field(None, description="Skip CUDA graphs; by default only on a CPU.")
    restarts: int = Field(20, ge=0, description="Times a dead in-process engine is started again in one night.")

    usd_per_million_prompt: float = Field(0.0, ge=0, description="Price of a million prompt tokens, for the plan.")
    usd_per_million_completion: float = Field(0.0, ge=0, description="Price of a million answer tokens, for the plan.")
    prompt_tokens_per_second: float | None = Field(
        None, gt=0, description="For the plan; by default what the last run measured."
    )
    completion_tokens_per_second: float | None = Field(
        None, gt=0, description="For the plan; by default what the last run measured."
    )
