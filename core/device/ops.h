// The operations that a device computes: one struct for each operation, with operands by name.
//
// Extents: M rows, B samples, T positions, C width, V vocabulary, H heads of width D.
// Floating-point operands are row-major, contiguous and of one dtype (fp32, bf16 or fp16), except
// those marked fp32 or fp64. Sums run in fp32 or better and are rounded once, to nearest even.
// Outputs are overwritten unless the operand says "added to". Operands marked optional may be empty
// tensors. Operands must not alias unless the operation allows it.
#pragma once

#include "core/device/ops/attention.h"
#include "core/device/ops/codes.h"
#include "core/device/ops/flat.h"
#include "core/device/ops/images.h"
#include "core/device/ops/layers.h"
