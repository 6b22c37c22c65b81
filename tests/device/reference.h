// The operations of core/device/ops.h in float64, each as its formula says, with no thought of
// speed: what the kernels of every device are held against.
#pragma once

#include "tests/device/reference/flat.h"
#include "tests/device/reference/images.h"
#include "tests/device/reference/layers.h"
