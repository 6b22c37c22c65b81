#include <cstring>

#include "peer/comm/sim/group.h"
#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

using Entry = SimGroup::Entry;

std::byte* first_byte(const Tensor& tensor) {
  return reinterpret_cast<std::byte*>(tensor.data<std::uint8_t>());
}

/// Adds up elements [begin, begin + count) of the inputs of all entries, and writes the `count`
/// sums to every target.
void sum(const std::vector<Entry>& entries, std::size_t begin, std::size_t count,
         const std::vector<std::byte*>& targets) {
  const DType dtype = entries.front().in.dtype();
  std::vector<const std::byte*> sources;
  for (const Entry& entry : entries)
    sources.push_back(first_byte(entry.in) + begin * size_of(dtype));
  sum_in_order(dtype, sources, targets, count);
}

void copy(const Tensor& from, std::size_t from_byte, const Tensor& to, std::size_t to_byte,
          std::size_t bytes) {
  const std::uint8_t* source = from.data<std::uint8_t>() + from_byte;
  std::uint8_t* target = to.data<std::uint8_t>() + to_byte;
  if (source != target) std::memcpy(target, source, bytes);
}

}  // namespace

void move_values(const std::vector<Entry>& entries) {
  const Call& call = entries.front().call;
  if (call.bytes == 0) return;
  const std::size_t p = entries.size(), bytes = call.bytes, n = bytes / p;
  const std::size_t element = size_of(entries.front().in.dtype());
  switch (call.kind) {
    case Call::Kind::all_reduce: {
      std::vector<std::byte*> targets;
      for (const Entry& entry : entries) targets.push_back(first_byte(entry.in));
      return sum(entries, 0, bytes / element, targets);
    }
    case Call::Kind::reduce_scatter:
      for (std::size_t r = 0; r < p; ++r)
        sum(entries, r * n / element, n / element, {first_byte(entries[r].out)});
      return;
    case Call::Kind::all_gather:
      for (const Entry& to : entries)
        for (std::size_t r = 0; r < p; ++r) copy(entries[r].in, 0, to.out, r * n, n);
      return;
    case Call::Kind::broadcast:
      for (const Entry& to : entries)
        copy(entries[static_cast<std::size_t>(call.root)].in, 0, to.out, 0, bytes);
      return;
    case Call::Kind::all_to_all:
      for (std::size_t to = 0; to < p; ++to)
        for (std::size_t r = 0; r < p; ++r) copy(entries[r].in, to * n, entries[to].out, r * n, n);
      return;
    case Call::Kind::barrier:
    case Call::Kind::split:
      return;
  }
}

}  // namespace ringside::peer
