// Operations of NCCL on the host: their checks, and the work of all their ranks.
#include "tests/cuda_on_host/nccl_operation.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "core/num/bf16.h"
#include "core/num/fp16.h"

namespace cuda_on_host::nccl {
namespace {

using ringside::bf16;
using ringside::fp16;

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
  }
  return 0;
}

template <class T>
T wide(T value) {
  return value;
}
float wide(bf16 value) { return to_float(value); }
float wide(fp16 value) { return to_float(value); }
template <class T>
void narrow(T& to, T value) {
  to = value;
}
void narrow(bf16& to, float value) { to = ringside::to_bf16(value); }
void narrow(fp16& to, float value) { to = ringside::to_fp16(value); }

template <class T>
T combine(ncclRedOp_t op, T a, T b) {
  switch (op) {
    case ncclProd:
      return static_cast<T>(a * b);
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return static_cast<T>(a + b);
  }
}

// Combines `count` elements of every rank's array, from element `begin` on, in rank order. Works
// block by block, because an output may lie where an input does.
template <class T>
void reduce(const std::vector<Part*>& parts, std::size_t begin, const std::vector<void*>& outputs) {
  using Wide = decltype(wide(T{}));
  constexpr std::size_t block = 1024;
  const std::size_t count = parts[0]->count;
  const ncclRedOp_t op = parts[0]->op;
  for (std::size_t at = 0; at < count; at += block) {
    const std::size_t n = std::min(block, count - at);
    Wide sums[block];
    for (std::size_t r = 0; r < parts.size(); ++r) {
      const T* from = static_cast<const T*>(parts[r]->send) + begin + at;
      for (std::size_t i = 0; i < n; ++i)
        sums[i] = r == 0 ? wide(from[i]) : combine(op, sums[i], wide(from[i]));
    }
    if (op == ncclAvg)
      for (std::size_t i = 0; i < n; ++i)
        sums[i] = static_cast<Wide>(sums[i] / static_cast<Wide>(parts.size()));
    for (void* output : outputs)
      for (std::size_t i = 0; i < n; ++i) narrow(static_cast<T*>(output)[at + i], sums[i]);
  }
}

void reduce(const std::vector<Part*>& parts, std::size_t begin, const std::vector<void*>& outputs) {
  switch (parts[0]->type) {
    case ncclInt8:
      return reduce<std::int8_t>(parts, begin, outputs);
    case ncclUint8:
      return reduce<std::uint8_t>(parts, begin, outputs);
    case ncclInt32:
      return reduce<std::int32_t>(parts, begin, outputs);
    case ncclUint32:
      return reduce<std::uint32_t>(parts, begin, outputs);
    case ncclInt64:
      return reduce<std::int64_t>(parts, begin, outputs);
    case ncclUint64:
      return reduce<std::uint64_t>(parts, begin, outputs);
    case ncclFloat32:
      return reduce<float>(parts, begin, outputs);
    case ncclFloat64:
      return reduce<double>(parts, begin, outputs);
    case ncclBfloat16:
      return reduce<bf16>(parts, begin, outputs);
    case ncclFloat16:
      return reduce<fp16>(parts, begin, outputs);
  }
}

void move(void* to, std::size_t offset, const void* from, std::size_t bytes) {
  std::memmove(static_cast<char*>(to) + offset, from, bytes);
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

}  // namespace

bool is_valid(const Part& part, int of_rank, int of_size) {
  const auto size = static_cast<std::size_t>(of_size);
  const auto rank = static_cast<std::size_t>(of_rank);
  const std::size_t bytes = part.count * bytes_of(part.type);
  if (bytes_of(part.type) == 0) return false;
  if (part.peer < 0 || part.peer >= of_size) return false;
  if (part.is_message()) return bytes == 0 || part.send || part.receive;
  const bool sends = part.kind != Kind::broadcast || part.peer == of_rank;
  if (!part.receive || (sends && !part.send)) return false;
  const bool in_place = part.send == part.receive;
  switch (part.kind) {
    case Kind::all_reduce:
    case Kind::reduce_scatter:
      if (part.op < ncclSum || part.op > ncclAvg) return false;
      if (part.kind == Kind::all_reduce)
        return in_place || !overlap(part.send, bytes, part.receive, bytes);
      return static_cast<const char*>(part.send) + rank * bytes == part.receive ||
             !overlap(part.send, size * bytes, part.receive, bytes);
    case Kind::all_gather:
      return static_cast<char*>(part.receive) + rank * bytes == part.send ||
             !overlap(part.send, bytes, part.receive, size * bytes);
    default:
      return !sends || in_place || !overlap(part.send, bytes, part.receive, bytes);
  }
}

bool agree(const Part& a, const Part& b) {
  if (a.count != b.count || a.type != b.type) return false;
  if (a.is_message()) return a.kind != b.kind;
  const bool reduces = a.kind == Kind::all_reduce || a.kind == Kind::reduce_scatter;
  return a.kind == b.kind && a.peer == b.peer && (!reduces || a.op == b.op);
}

// Called once every rank that takes part is in `parts`. A collective uses the parts in rank order.
void perform(std::vector<Part*> parts) {
  std::sort(parts.begin(), parts.end(), [](const Part* a, const Part* b) {
    return std::tie(a->rank, a->kind) < std::tie(b->rank, b->kind);
  });
  const std::size_t count = parts[0]->count, bytes = count * bytes_of(parts[0]->type);
  std::vector<void*> outputs;
  for (const Part* part : parts) outputs.push_back(part->receive);
  switch (parts[0]->kind) {
    case Kind::all_reduce:
      return reduce(parts, 0, outputs);
    case Kind::reduce_scatter:
      for (std::size_t r = 0; r < parts.size(); ++r) reduce(parts, r * count, {outputs[r]});
      return;
    case Kind::all_gather:
      for (std::size_t r = 0; r < parts.size(); ++r)
        for (void* output : outputs) move(output, r * bytes, parts[r]->send, bytes);
      return;
    case Kind::broadcast:
      for (void* output : outputs)
        move(output, 0, parts[static_cast<std::size_t>(parts[0]->peer)]->send, bytes);
      return;
    case Kind::send:
      return move(parts[1]->receive, 0, parts[0]->send, bytes);
    case Kind::receive:
      return move(parts[0]->receive, 0, parts[1]->send, bytes);
  }
}

}  // namespace cuda_on_host::nccl
