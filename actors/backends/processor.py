"""What this machine's processor has instructions for."""

from __future__ import annotations

BFLOAT16_ARITHMETIC = ("avx512_bf16", "amx_bf16", "bf16")  # Intel and AMD, Intel, Arm


def computes_bfloat16() -> bool:
    """Whether it multiplies matrices of bfloat16 as they are.

    Without the instructions for it, a CPU converts every number before it multiplies: prompts took seven times as long
    as in float32 (EPYC of the third generation).
    """
    import torch

    able = torch.cpu.get_capabilities()
    return any(able.get(name) for name in BFLOAT16_ARITHMETIC)
