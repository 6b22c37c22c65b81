#include <cstring>

#include "peer/comm/algorithms/algorithms.h"
#include "peer/comm/sim/group.h"
#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

using Entry = SimGroup::Entry;

std::byte* memory_of(const Tensor& tensor) {
  return reinterpret_cast<std::byte*>(tensor.data<std::uint8_t>());
}

/// Adds up elements [begin, begin + count) of the inputs of all entries, and writes the `count`
/// sums to every target.
void sum(const std::vector<Entry>& entries, std::size_t begin, std::size_t count,
         const std::vector<std::byte*>& targets) {
  const DType dtype = entries.front().in.dtype();
  std::vector<const std::byte*> sources;
  for (const Entry& entry : entries)
    sources.push_back(memory_of(entry.in) + begin * size_of(dtype));
  sum_in_order(dtype, sources, targets, count);
}

/// The sum of elements of the inputs of all entries, added up as `sum` says.
std::vector<std::byte> added_up(const std::vector<Entry>& entries, const Sum& sum) {
  const DType dtype = entries.front().in.dtype();
  const std::size_t begin = static_cast<std::size_t>(sum.begin) * size_of(dtype);
  const std::size_t bytes = static_cast<std::size_t>(sum.count) * size_of(dtype);
  std::vector<std::vector<std::byte>> values;
  for (const Entry& entry : entries) {
    const std::byte* first = memory_of(entry.in) + begin;
    values.emplace_back(first, first + bytes);
  }
  int result = 0;
  for (const Addition& addition : sum.additions) {
    result = addition.into;
    std::byte* const into = values[static_cast<std::size_t>(addition.into)].data();
    const std::byte* const sources[] = {into,
                                        values[static_cast<std::size_t>(addition.from)].data()};
    sum_in_order(dtype, sources, {&into, 1}, static_cast<std::size_t>(sum.count));
  }
  return std::move(values[static_cast<std::size_t>(result)]);
}

/// Carries out an all_reduce or a reduce_scatter in the order of an algorithm.
void sum_by(const AlgorithmRow& row, const std::vector<Entry>& entries,
            const std::vector<int>& hosts) {
  const Collective& call = entries.front().call;
  std::vector<std::byte> whole;
  for (const Sum& sum : row.sums(call.kind, entries.front().in.count(), hosts)) {
    const std::vector<std::byte> part = added_up(entries, sum);
    whole.insert(whole.end(), part.begin(), part.end());
  }
  std::size_t begin = 0;
  for (const Entry& entry : entries) {
    std::memcpy(memory_of(entry.out), whole.data() + begin, entry.out.bytes());
    if (call.kind == Collective::Kind::reduce_scatter) begin += entry.out.bytes();
  }
}

void copy(const Tensor& from, std::size_t from_byte, const Tensor& to, std::size_t to_byte,
          std::size_t bytes) {
  const std::uint8_t* source = from.data<std::uint8_t>() + from_byte;
  std::uint8_t* target = to.data<std::uint8_t>() + to_byte;
  if (source != target) std::memcpy(target, source, bytes);
}

}  // namespace

void move_values(const std::vector<Entry>& entries, const AlgorithmRow* algorithm,
                 const std::vector<int>& hosts) {
  const Collective& call = entries.front().call;
  if (call.bytes == 0) return;
  const bool sums =
      call.kind == Collective::Kind::all_reduce || call.kind == Collective::Kind::reduce_scatter;
  if (sums && algorithm) return sum_by(*algorithm, entries, hosts);
  const std::size_t p = entries.size(), bytes = call.bytes, n = bytes / p;
  const std::size_t element = size_of(entries.front().in.dtype());
  switch (call.kind) {
    case Collective::Kind::all_reduce: {
      std::vector<std::byte*> targets;
      for (const Entry& entry : entries) targets.push_back(memory_of(entry.in));
      return sum(entries, 0, bytes / element, targets);
    }
    case Collective::Kind::reduce_scatter:
      for (std::size_t r = 0; r < p; ++r)
        sum(entries, r * n / element, n / element, {memory_of(entries[r].out)});
      return;
    case Collective::Kind::all_gather:
      for (const Entry& to : entries)
        for (std::size_t r = 0; r < p; ++r) copy(entries[r].in, 0, to.out, r * n, n);
      return;
    case Collective::Kind::broadcast:
      for (const Entry& to : entries)
        copy(entries[static_cast<std::size_t>(call.root)].in, 0, to.out, 0, bytes);
      return;
    case Collective::Kind::all_to_all:
      for (std::size_t to = 0; to < p; ++to)
        for (std::size_t r = 0; r < p; ++r) copy(entries[r].in, to * n, entries[to].out, r * n, n);
      return;
    case Collective::Kind::barrier:
    case Collective::Kind::split:
    case Collective::Kind::expose:
    case Collective::Kind::share:
      return;
  }
}

}  // namespace ringside::peer
