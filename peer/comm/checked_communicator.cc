#include "peer/comm/checked_communicator.h"

#include "core/base/error.h"
#include "core/comm/window.h"
#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

/// `whole` is the array whose size ranks must agree on.
Collective call_of(Collective::Kind kind, const Tensor& whole, int root = 0) {
  return {.kind = kind, .root = root, .bytes = whole.bytes()};
}

}  // namespace

WorkPtr CheckedCommunicator::all_reduce(const Tensor& array) {
  check_sum("all_reduce", array);
  return noted(call_of(Collective::Kind::all_reduce, array), array, array);
}

WorkPtr CheckedCommunicator::reduce_scatter(const Tensor& array, const Tensor& part) {
  check_parts("reduce_scatter", array, part);
  check_sum("reduce_scatter", array);
  return noted(call_of(Collective::Kind::reduce_scatter, array), array, part);
}

WorkPtr CheckedCommunicator::all_gather(const Tensor& part, const Tensor& array) {
  check_parts("all_gather", array, part);
  return noted(call_of(Collective::Kind::all_gather, array), part, array);
}

WorkPtr CheckedCommunicator::broadcast(const Tensor& array, int root) {
  check_rank("broadcast", root);
  return noted(call_of(Collective::Kind::broadcast, array, root), array, array);
}

WorkPtr CheckedCommunicator::all_to_all(const Tensor& in, const Tensor& out) {
  if (in.count() != out.count() || in.dtype() != out.dtype() || in.count() % size() != 0)
    throw Error(
        "{}: all_to_all of {} elements ({}) into {} ({}) among {} ranks; both tensors must have "
        "the same dtype and the same size, a multiple of the number of ranks",
        name_, in.count(), name_of(in.dtype()), out.count(), name_of(out.dtype()), size());
  return noted(call_of(Collective::Kind::all_to_all, in), in, out);
}

WorkPtr CheckedCommunicator::send(const Tensor& array, int to) {
  check_rank("send", to);
  return noted("send", array, begin_message(array, to, true));
}

WorkPtr CheckedCommunicator::recv(const Tensor& array, int from) {
  check_rank("recv", from);
  return noted("recv", array, begin_message(array, from, false));
}

WorkPtr CheckedCommunicator::noted(const Collective& call, const Tensor& in, const Tensor& out) {
  WorkPtr work = begin(call, in, out);
  work->note = {name_, name_of(call.kind), static_cast<std::int64_t>(call.bytes),
                static_cast<std::int64_t>(last_call())};
  return work;
}

WorkPtr CheckedCommunicator::noted(std::string_view message, const Tensor& array, WorkPtr work) {
  work->note = {name_, message, static_cast<std::int64_t>(array.bytes())};
  return work;
}

std::unique_ptr<Window> CheckedCommunicator::expose(const Tensor&) {
  throw Error(
      "{}: ranks of this device cannot read and write each other's memory one-sidedly; use "
      "collectives or messages",
      name_);
}

void CheckedCommunicator::check_parts(const char* what, const Tensor& array,
                                      const Tensor& part) const {
  if (array.count() != part.count() * size() || array.dtype() != part.dtype())
    throw Error(
        "{}: {}: {} parts of {} elements ({}) do not match an array of {} elements ({}); the sizes "
        "must add up and the dtypes must be equal",
        name_, what, size(), part.count(), name_of(part.dtype()), array.count(),
        name_of(array.dtype()));
}

void CheckedCommunicator::check_sum(const char* what, const Tensor& array) const {
  if (array && !summable(array.dtype()))
    throw Error("{}: {} of {} elements of {}: ranks can sum only fp32, bf16 and fp16", name_, what,
                array.count(), name_of(array.dtype()));
}

void CheckedCommunicator::check_rank(const char* what, int rank) const {
  if (rank < 0 || rank >= size())
    throw Error("{}: {}: there is no rank {} in a group of {}", name_, what, rank, size());
}

}  // namespace ringside::peer
