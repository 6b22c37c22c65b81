// The compressors of this build, each in a source of its own.
#pragma once

#include "core/compress/tensor_codes.h"

namespace ringside::compress {

CompressorInfo fp16_info();
CompressorInfo bf16_info();
CompressorInfo int8_info();
CompressorInfo int4_info();
CompressorInfo onebit_info();
CompressorInfo signsgd_info();
CompressorInfo top_k_info();
CompressorInfo dgc_info();
CompressorInfo random_k_info();
CompressorInfo powersgd_info();

}  // namespace ringside::compress
