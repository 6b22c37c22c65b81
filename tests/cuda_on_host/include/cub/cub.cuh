// CUB on the host: what there is of it.
#pragma once

#include "device/device_radix_sort.cuh"
