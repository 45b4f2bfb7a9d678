/* llama.c: the "llama" architecture (Llama 1 to 3, Mistral 7B, SmolLM2, TinyLlama ...): RoPE over
 * neighbouring pairs, whose Q and K rows GGUF stores permuted to suit; optional frequency factors
 * in rope_freqs.weight; optional biases. */
#include "model/build.h"

static loam_node *hidden(loam_build *b)
{
    return loam_build_decoder(b, &(loam_block_style){.qk_norm = false});
}

const loam_arch loam_arch_llama = {
    .name = "llama",
    .rope_mode = LOAM_ROPE_NORMAL,
    .hidden = hidden,
};
