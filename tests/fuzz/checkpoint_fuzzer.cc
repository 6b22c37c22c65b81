#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::byte* data, std::size_t size) {
  ringside::fuzz::checkpoint({data, size});
  return 0;
}
