"""Models of two random layers with a tokenizer of bytes: vLLM loads and starts them, and what they say is noise."""

from pathlib import Path

TURN = "<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n"
OPENING = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
REFUSE = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
ALTERNATE = (
    "{% if (turn.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
)
THINK = "{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
TEMPLATES: dict[str, str | None] = {
    "chatml": f"{{% for turn in messages %}}{TURN}{{% endfor %}}{OPENING}",
    "refuses system": f"{REFUSE}{{% for turn in messages %}}{ALTERNATE}{TURN}{{% endfor %}}{OPENING}",
    "drops system": f"{{% for turn in messages if turn.role != 'system' %}}{TURN}{{% endfor %}}{OPENING}",
    "can think": f"{{% for turn in messages %}}{TURN}{{% endfor %}}{OPENING}{THINK}",
    "only thinks": f"{{% for turn in messages %}}{TURN}{{% endfor %}}{OPENING}<think>\n",
    "none": None,
}


def make_toy_model(folder: Path, template: str) -> Path:
    """Return the folder, with a model of that chat template in it."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    bytes_alone = Tokenizer(
        models.BPE(
            vocab={
                c: n for n, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))
            },
            merges=[],
        )
    )
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    bytes_alone.decoder = decoders.ByteLevel()
    marks = {
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "additional_special_tokens": ["<|im_start|>"],
    }
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_alone, **marks)
    tokenizer.chat_template = TEMPLATES[template]
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    config = Qwen2Config(
        vocab_size=320,
        max_position_embeddings=32_768,
        eos_token_id=257,
        **size,
        **heads,
    )
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder
