"""Write `documents/decode_step_VERSION.pt2.xz`: a decode step of a small Llama, as `torch.export.save` and the installed
transformers write it. It was run with transformers 4.56.2 and 5.23.0.

    python tests/make_document.py
"""

from __future__ import annotations

import io
import lzma
from pathlib import Path

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.integrations.executorch import register_dynamic_cache_export_support

DOCUMENTS = Path(__file__).parent / "documents"


def model() -> LlamaForCausalLM:
    """Return a Llama of two layers with random weights."""
    config = LlamaConfig(
        vocab_size=16,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


if __name__ == "__main__":
    register_dynamic_cache_export_support()
    llama = model()
    with torch.no_grad():
        cache = llama(torch.tensor([[1, 2, 3, 4]]), use_cache=True).past_key_values
        length = [[{2: torch.export.Dim.AUTO}] * 2] * 2
        program = torch.export.export(
            llama,
            (),
            {"input_ids": torch.tensor([[1]]), "past_key_values": cache},
            dynamic_shapes={"input_ids": None, "past_key_values": length},
            strict=False,
        )
    file = io.BytesIO()
    torch.export.save(program, file)
    path = DOCUMENTS / f"decode_step_{transformers.__version__}.pt2.xz"
    path.write_bytes(lzma.compress(file.getvalue(), preset=9))
