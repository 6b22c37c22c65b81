#include <cstring>

#include "peer/comm/sim/group.h"
#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

using Part = SimGroup::Part;

/// Every target becomes the sum of elements [begin, begin + count) of all arrays.
void sum(const std::vector<Part>& parts, std::size_t begin, std::size_t count,
         const std::vector<float*>& targets) {
  std::vector<const float*> sources;
  for (const Part& part : parts) sources.push_back(part.in.data<float>() + begin);
  sum_in_order(sources, targets, count);
}

void copy(const Tensor& from, std::size_t from_byte, const Tensor& to, std::size_t to_byte,
          std::size_t bytes) {
  const std::uint8_t* source = from.data<std::uint8_t>() + from_byte;
  std::uint8_t* target = to.data<std::uint8_t>() + to_byte;
  if (source != target) std::memcpy(target, source, bytes);
}

}  // namespace

void move_values(const std::vector<Part>& parts) {
  const Call& call = parts.front().call;
  if (call.bytes == 0) return;
  const std::size_t p = parts.size(), bytes = call.bytes, n = bytes / p;
  switch (call.kind) {
    case Call::Kind::all_reduce: {
      std::vector<float*> targets;
      for (const Part& part : parts) targets.push_back(part.in.data<float>());
      return sum(parts, 0, bytes / sizeof(float), targets);
    }
    case Call::Kind::reduce_scatter:
      for (std::size_t r = 0; r < p; ++r)
        sum(parts, r * n / sizeof(float), n / sizeof(float), {parts[r].out.data<float>()});
      return;
    case Call::Kind::all_gather:
      for (const Part& to : parts)
        for (std::size_t r = 0; r < p; ++r) copy(parts[r].in, 0, to.out, r * n, n);
      return;
    case Call::Kind::broadcast:
      for (const Part& to : parts)
        copy(parts[static_cast<std::size_t>(call.root)].in, 0, to.out, 0, bytes);
      return;
    case Call::Kind::all_to_all:
      for (std::size_t to = 0; to < p; ++to)
        for (std::size_t r = 0; r < p; ++r) copy(parts[r].in, to * n, parts[to].out, r * n, n);
      return;
    case Call::Kind::barrier:
    case Call::Kind::split:
      return;
  }
}

}  // namespace ringside::peer
