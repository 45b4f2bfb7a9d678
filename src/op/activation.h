/* activation.h: SiLU and GELU in double, with their slopes, for the references of silu.c, gelu.c
 * and glu.c; private to src/op. */
#ifndef LOAM_OP_ACTIVATION_H
#define LOAM_OP_ACTIVATION_H

#include <math.h>

/* x * sigmoid(x) (Elfwing, Uchibe, Doya 2017). */
static inline double loam_silu_value(double x)
{
    return x / (1 + exp(-x));
}

static inline double loam_silu_slope(double x)
{
    const double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}

/* GELU's tanh form (Hendrycks and Gimpel 2016): x/2 * (1 + tanh(c * (x + 0.044715 x^3))),
 * c = sqrt(2/pi). */
#define LOAM_GELU_SCALE 0.79788456080286535588
#define LOAM_GELU_CUBE 0.044715

static inline double loam_gelu_value(double x)
{
    return 0.5 * x * (1 + tanh(LOAM_GELU_SCALE * (x + LOAM_GELU_CUBE * x * x * x)));
}

static inline double loam_gelu_slope(double x)
{
    const double t = tanh(LOAM_GELU_SCALE * (x + LOAM_GELU_CUBE * x * x * x));
    return 0.5 * (1 + t) +
           0.5 * x * (1 - t * t) * LOAM_GELU_SCALE * (1 + 3 * LOAM_GELU_CUBE * x * x);
}

#endif /* LOAM_OP_ACTIVATION_H */
