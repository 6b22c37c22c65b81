#include "peer/comm/rma.h"

#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "peer/comm/sum.h"

namespace ringside::peer {

void carry_out(const RmaOperation& access) {
  auto* local = reinterpret_cast<std::byte*>(access.local.data<std::uint8_t>());
  const std::size_t bytes = access.local.bytes();
  if (!access.remote || !local || bytes == 0) return;
  if (access.kind == RmaOperation::Kind::get) {
    std::memcpy(local, access.remote, bytes);
  } else if (access.kind == RmaOperation::Kind::put) {
    std::memcpy(access.remote, local, bytes);
  } else {
    const std::byte* const sources[] = {access.remote, local};
    sum_in_order(access.local.dtype(), sources, {&access.remote, 1},
                 static_cast<std::size_t>(access.local.count()));
  }
}

RmaWindow::RmaWindow(std::string group, int rank, Tensor own, std::vector<Exposed> all)
    : group_(std::move(group)), rank_(rank), own_(std::move(own)), all_(std::move(all)) {}

WorkPtr RmaWindow::get(int owner, std::int64_t begin, const Tensor& out) {
  const RmaOperation one = access(RmaOperation::Kind::get, owner, begin, out);
  if (owner != rank_) traffic_.received += static_cast<std::int64_t>(out.bytes());
  return this->begin(one);
}

WorkPtr RmaWindow::put(const Tensor& in, int owner, std::int64_t begin) {
  const RmaOperation one = access(RmaOperation::Kind::put, owner, begin, in);
  if (owner != rank_) traffic_.sent += static_cast<std::int64_t>(in.bytes());
  return this->begin(one);
}

WorkPtr RmaWindow::add(const Tensor& in, int owner, std::int64_t begin) {
  const RmaOperation one = access(RmaOperation::Kind::add, owner, begin, in);
  if (owner != rank_) traffic_.sent += static_cast<std::int64_t>(in.bytes());
  return this->begin(one);
}

RmaOperation RmaWindow::access(RmaOperation::Kind kind, int owner, std::int64_t begin,
                               const Tensor& local) const {
  if (owner < 0 || static_cast<std::size_t>(owner) >= all_.size())
    throw Error("{}: there is no rank {} in a group of {}", group_, owner, all_.size());
  const Exposed& exposed = all_[static_cast<std::size_t>(owner)];
  const std::size_t element = size_of(own_.dtype());
  const auto elements = static_cast<std::int64_t>(exposed.bytes / element);
  if (local.dtype() != own_.dtype() || begin < 0 || begin + local.count() > elements)
    throw Error("{}: elements [{}, {}) of {} are not in the window of rank {}, which has {} of {}",
                group_, begin, begin + local.count(), name_of(local.dtype()), owner, elements,
                name_of(own_.dtype()));
  std::byte* first = exposed.first.get();
  return {kind, owner, first ? first + static_cast<std::size_t>(begin) * element : nullptr, local};
}

}  // namespace ringside::peer
