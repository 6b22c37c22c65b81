// The operations that a device computes: one struct an operation, its operands by name.
//
// Extents: M rows, B samples, T positions, C width, V vocabulary, H heads, D = C / H.
// Floating-point operands are row-major and contiguous, and of the operation's dtype, fp32, bf16 or
// fp16, but for those that say fp32 or fp64. Sums run in fp32 or better and are rounded once, to
// nearest even. Outputs are overwritten unless the operand says "added to". Operands marked
// optional may be empty tensors. Operands do not alias unless an operation says so.
#pragma once

#include "core/device/ops/flat.h"
#include "core/device/ops/images.h"
#include "core/device/ops/layers.h"
