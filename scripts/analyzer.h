/* analyzer.h: what clang-tidy is told and the compiler is not; tidy.sh includes it before a file.
 *
 * loam_fail returns the status it was given, and loam_reference_memory LOAM_E_MEMORY. The analyzer
 * reads one file at a time and would follow paths on which a failure returns LOAM_OK. */
#ifndef LOAM_ANALYZER_H
#define LOAM_ANALYZER_H

#include "core/core.h"

#define loam_fail(e, status, ...) (loam_fail(e, status, __VA_ARGS__), (status))

#ifdef LOAM_ANALYZE_OP /* a file of src/op */
#include "op/check.h"

#define loam_reference_memory(n, e) (loam_reference_memory(n, e), LOAM_E_MEMORY)
#endif

#endif /* LOAM_ANALYZER_H */
