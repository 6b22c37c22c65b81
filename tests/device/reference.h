// The operations of core/device/ops.h in float64, written as their formulas are and not for speed.
// Tests compare the kernels of every device with them.
#pragma once

#include "tests/device/reference/attention.h"
#include "tests/device/reference/flat.h"
#include "tests/device/reference/images.h"
#include "tests/device/reference/layers.h"
