#include "core/plan/device_traits.h"

#include <algorithm>
#include <iterator>

namespace ringside {
namespace {

constexpr DeviceTraits kinds[] = {
    {.kind = "cpu",
     .communicator = "shm",
     .on_processor = true,
     .shares_memory = true,
     .one_sided = true,
     .repeats_bits = true},
    {.kind = "cuda", .communicator = "nccl", .sums_in_library = true},
    {.kind = "sim",
     .communicator = "sim",
     .simulated = true,
     .shares_memory = true,
     .one_sided = true,
     .repeats_bits = true},
};
constexpr DeviceTraits of_no_kind;

}  // namespace

const DeviceTraits& device_traits(std::string_view kind) {
  const auto* found = std::find_if(std::begin(kinds), std::end(kinds),
                                   [&](const DeviceTraits& traits) { return traits.kind == kind; });
  return found == std::end(kinds) ? of_no_kind : *found;
}

}  // namespace ringside
