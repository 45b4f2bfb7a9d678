/* qwen3.c: the "qwen3" architecture: RoPE over halves, each head of q and k normed before it. */
#include "model/build.h"

static loam_node *hidden(loam_build *b)
{
    return loam_build_decoder(b, &(loam_block_style){.qk_norm = true});
}

const loam_arch loam_arch_qwen3 = {
    .name = "qwen3",
    .rope_mode = LOAM_ROPE_NEOX,
    .hidden = hidden,
};
