/* qwen2.c: the "qwen2" architecture (Qwen2, Qwen2.5): RoPE over halves, biases on q, k and v. */
#include "model/build.h"

static loam_node *hidden(loam_build *b)
{
    return loam_build_decoder(b, &(loam_block_style){.qk_norm = false});
}

const loam_arch loam_arch_qwen2 = {
    .name = "qwen2",
    .rope_mode = LOAM_ROPE_NEOX,
    .hidden = hidden,
};
