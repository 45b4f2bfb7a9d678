/* analyzer.h: what clang-tidy is told and the compiler is not; tidy.sh includes it before a file.
 *
 * loam_fail returns the status it was given. The analyzer reads one file at a time and would
 * follow paths on which a failure returns LOAM_OK. */
#ifndef LOAM_ANALYZER_H
#define LOAM_ANALYZER_H

#include "core/core.h"

#define loam_fail(e, status, ...) (loam_fail(e, status, __VA_ARGS__), (status))

#endif /* LOAM_ANALYZER_H */
