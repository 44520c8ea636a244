"""Writes a random Llama of 100,000 parameters with a byte-level tokenizer: real architecture, no sense."""

from __future__ import annotations

from pathlib import Path

END = "<|im_end|>"
SPECIAL = ["<|im_start|>", END]
CORPUS = ["a small corpus of passages and tables from which specialists answer a question together"]
CONTEXT = 2048

CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}"""

NO_SYSTEM_TURN = "{%- if messages[0].role == 'system' -%}{{ raise_exception('none') }}{%- endif -%}" + CHAT_TEMPLATE
SILENT_SYSTEM_TURN = CHAT_TEMPLATE.replace("in messages -%}", "in messages if message.role != 'system' -%}")


def write_tiny_llama(folder: Path, chat_template: str | None = CHAT_TEMPLATE, dtype: str = "float32") -> Path:
    """Writes weights, configuration and tokenizer, the same ones every time."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer(chat_template)
    config = LlamaConfig(
        vocab_size=len(tokenizer) + 3,  # models often have more tokens than their tokenizers
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
        initializer_range=0.5,  # far from uniform, so that a different cache shows in the numbers
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        LlamaForCausalLM(config).to(getattr(torch, dtype)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(chat_template: str | None):  # type: ignore[no-untyped-def]
    """Byte-level, so that any text has tokens; a few merges, so that there is something to merge."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bytewise = Tokenizer(models.BPE())
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bytewise.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=bytewise, eos_token=END, pad_token=END, chat_template=chat_template)
