// CUB on the host: the part of it that exists here.
#pragma once

#include "device/device_radix_sort.cuh"
