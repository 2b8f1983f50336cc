"""Whether and how the web is asked beside the memory: one section of the settings. Off by default."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

EngineName = Literal["searxng", "google", "ddgs"]


class WebSettings(BaseModel):
    """Web search. A query leaves this machine only when `enabled` is set, and never with personal data in it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(False, description="Ask the web where a question needs it; without it nothing is sent.")
    engines: tuple[EngineName, ...] = Field(
        ("searxng", "google", "ddgs"), description="Engines in the order they are asked; one not set up is passed over."
    )
    searxng_url: str | None = Field(
        None, description="Base URL of a SearXNG instance whose JSON format is switched on."
    )
    google_cx: str | None = Field(None, description="Id of a Google Programmable Search Engine.")
    google_key_env: str = Field("SLOWWAVE_GOOGLE_KEY", description="Name of the variable that holds Google's API key.")
    google_url: str = Field(
        "https://www.googleapis.com/customsearch/v1", description="Where Google's Custom Search JSON API is."
    )
    results: int = Field(3, ge=1, le=10, description="Results a question is answered with, at most.")
    timeout: float = Field(8.0, gt=0, description="Seconds a search or a page may take, however slowly it drips.")
    pages: bool = Field(True, description="Fetch the pages found and keep their main text; else their snippets alone.")
    page_chars: int = Field(2_000, ge=100, description="Characters kept of a page.")
    page_bytes: int = Field(2_000_000, ge=1_000, description="Bytes of a page that are read; a larger one is given up.")
    private_pages: bool = Field(False, description="Also fetch pages from private and loopback addresses.")
    interests: tuple[str, ...] = Field((), description="Words and phrases that always make a question one for the web.")
    never_send: tuple[str, ...] = Field((), description="Words and phrases (your name, say) taken out of every query.")
    ask_model: bool = Field(True, description="Where keywords don't decide, ask the language model yes or no.")
