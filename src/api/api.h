/* api.h: what stands behind the opaque handles of loam.h; private to src/api. */
#ifndef LOAM_API_API_H
#define LOAM_API_API_H

#include "loam.h"

#include "core/core.h"
#include "device/device.h"
#include "gguf/gguf.h"
#include "graph/graph.h"
#include "model/model.h"
#include "text/text.h"
#include "train/train.h"

struct loam_model {
    loam_device *device;
    loam_base *base;
};

struct loam_adapter {
    loam_lora *lora;
};

#endif /* LOAM_API_API_H */
