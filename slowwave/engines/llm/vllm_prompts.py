"""Render prompts as vLLM does, to count their tokens and find those that a chat template refuses, without an engine.

vLLM's own renderer does it, so that the template is the one that vLLM uses: the processor's before the tokenizer's, a
fallback by model type, or an encoder of the model's own. It needs the tokenizer and the configuration, but no weights.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from slowwave.engines.llm.protocol import ChatMessage, EngineUnavailable

NO_THINKING = {"enable_thinking": False}
"""Switches thinking off in chat templates that know this variable. Constrained decoding leaves no room to think."""
OPENING = {"add_generation_prompt": True}
"""A prompt ends where the answer begins, as `LLM.chat` renders it."""
OPEN_THOUGHTS = re.compile(
    r"[<\[](?!/)[^<>\[\]\s]*(?:think|thought|reason)[^<>\[\]\s]*[>\]]\s*\Z",
    re.IGNORECASE,
)
"""An opening tag of thoughts at the end of a prompt: `<think>`, `[THINK]`, `<|begin_of_thought|>`."""
MARK = "quetzal"
"""The text of the probe's system turn."""


class ChatPrompts:
    """The prompts of the model in the folder, or of the hub name, `source`."""

    def __init__(
        self,
        source: str,
        window: int,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Load the tokenizer and try the chat template once.

        Args:
            source: a folder or a hub name.
            window: the longest prompt and answer, in tokens.
            options: the engine's other options, such as another tokenizer or revision.

        Raises:
            EngineUnavailable: the model has no chat template, or one that renders no prompt, or it can only think.
            Exception: whatever vLLM raises for a model that it can't read.
        """
        from vllm import EngineArgs
        from vllm.config import VllmConfig
        from vllm.renderers import renderer_from_config

        # vLLM would log the refusal of the probe
        logging.getLogger("vllm.renderers").setLevel(logging.ERROR)
        model_config = EngineArgs(
            model=source, max_model_len=window, **options or {}
        ).create_model_config()
        self._renderer: Any = renderer_from_config(
            VllmConfig(model_config=model_config)
        )
        self.source = source
        self.folds = self._needs_folding()
        """True if the template refuses a system turn, or leaves its text out."""

    def prepare(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the turns in the form that the model's chat template accepts."""
        return fold_system(messages) if self.folds else list(messages)

    def count_tokens(self, messages: Sequence[ChatMessage]) -> int:
        """Return the tokens of a prompt.

        Raises:
            Exception: whatever the template raises for these turns.
        """
        return len(self._render(self.prepare(messages)))

    def supports_guidance(self) -> bool:
        """Return True if vLLM's guidance backend can be used: it needs a fast tokenizer, or Mistral's Tekken."""
        from vllm.v1.structured_output.backend_guidance import GuidanceBackend

        return bool(
            GuidanceBackend.is_tokenizer_supported(self._renderer.get_tokenizer())
        )

    def _needs_folding(self) -> bool:
        """Return True if the system text reaches the model only as part of the first user turn.

        Raises:
            EngineUnavailable: the template renders no prompt, or opens the model's thoughts.
        """
        probe: list[ChatMessage] = [
            {"role": "system", "content": MARK},
            {"role": "user", "content": "Hello."},
        ]
        as_is = self._probe(probe)
        folded = self._probe(fold_system(probe))
        if isinstance(as_is, Exception) and isinstance(folded, Exception):
            why = f"its chat template renders no prompt: {as_is}"
            if not self._has_template(as_is):
                why = "this model has no chat template: take an instruct model"
            raise EngineUnavailable(f"vllm:{self.source}", why) from as_is
        folds = isinstance(as_is, Exception) or (
            MARK not in as_is and MARK in str(folded)
        )
        if OPEN_THOUGHTS.search(str(folded if folds else as_is)):
            why = (
                "this model can only think: its chat template opens its thoughts although "
                "thinking is switched off; take an instruct model"
            )
            raise EngineUnavailable(f"vllm:{self.source}", why)
        return folds

    def _probe(self, messages: Sequence[ChatMessage]) -> str | Exception:
        """Return the text of a prompt, or the error that the template raises."""
        try:
            return str(self._renderer.get_tokenizer().decode(self._render(messages)))
        except Exception as refusal:
            return refusal

    def _has_template(self, refusal: Exception) -> bool:
        from vllm.renderers.chat_utils import ChatTemplateResolutionError

        return not isinstance(refusal, ChatTemplateResolutionError)

    def _render(self, messages: Sequence[ChatMessage]) -> list[int]:
        """Return the token ids of turns in the template's form."""
        from vllm.renderers.params import ChatParams

        params = ChatParams(chat_template_kwargs=OPENING | NO_THINKING)
        _, prompt = self._renderer.render_messages(list(messages), params)
        if "prompt_token_ids" in prompt:
            return list(prompt["prompt_token_ids"])
        return list(
            self._renderer.get_tokenizer().encode(
                prompt["prompt"], add_special_tokens=False
            )
        )


def fold_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return the turns without system turns: their text is put before that of the first turn, if it is a user's, else
    into a user turn of its own.
    """
    system = [message["content"] for message in messages if message["role"] == "system"]
    others = [message for message in messages if message["role"] != "system"]
    if not system:
        return others
    if others and others[0]["role"] == "user":
        system.append(others.pop(0)["content"])
    return [{"role": "user", "content": "\n\n".join(system)}, *others]
