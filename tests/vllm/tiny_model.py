"""Writes a random Qwen2.5-VL of 335,000 parameters: the real architecture, image processor and chat template.

It says nothing sensible, but everything between a request and its tokens is what a real model goes through.
"""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END, IMAGE, VIDEO = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"
SPECIAL = [END_OF_TEXT, TURN_START, TURN_END, VISION_START, VISION_END, IMAGE, VIDEO]
CORPUS = 10 * ("a small corpus of passages, tables and pictures from which specialists answer a question together",)
WIDTH = 64
CONTEXT = 32_768

CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' -%}<|vision_start|><|image_pad|><|vision_end|>{%- else -%}{{ part.text }}{%- endif -%}
{%- endfor -%}
{%- endif -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}"""

# As Llama-3.2-Vision's: an error when there are pictures beside a system turn.
NO_SYSTEM_BESIDE_PICTURES = (
    """\
{%- set seen = namespace(pictures=false) -%}
{%- for message in messages if message.content is not string -%}
{%- for part in message.content if part.type == 'image' -%}{%- set seen.pictures = true -%}{%- endfor -%}
{%- endfor -%}
{%- if seen.pictures and messages[0].role == 'system' -%}
{{ raise_exception('no system turn beside pictures') }}
{%- endif -%}
"""
    + CHAT_TEMPLATE
)


def write_tiny_model(folder: Path, chat_template: str | None = CHAT_TEMPLATE) -> Path:
    """Writes weights, configuration, tokenizer, processor and chat template to a folder, always the same."""
    tokenizer = _tokenizer(chat_template)
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL}
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": CONTEXT,
        "rope_parameters": {"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 10000.0},
        "bos_token_id": None,
        "eos_token_id": ids[TURN_END],
        "pad_token_id": ids[END_OF_TEXT],
        "tie_word_embeddings": True,
    }
    vision = {
        "depth": 2,
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_heads": 2,
        "out_hidden_size": WIDTH,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [1],
    }
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=ids[IMAGE],
        video_token_id=ids[VIDEO],
        vision_start_token_id=ids[VISION_START],
        vision_end_token_id=ids[VISION_END],
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        Qwen2_5_VLForConditionalGeneration(config).save_pretrained(folder)
    Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size={"shortest_edge": 56 * 56, "longest_edge": 224 * 224}),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=chat_template,
    ).save_pretrained(folder)
    return folder


def _tokenizer(chat_template: str | None) -> PreTrainedTokenizerFast:
    """Byte-level, so that any text has tokens; a few merges, so that there is something to merge."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=TURN_END, pad_token=END_OF_TEXT, chat_template=chat_template
    )
