// The base of windows, which turns each one-sided operation into an RmaOperation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/window.h"

namespace ringside::peer {

/// A one-sided operation of this rank on the memory of a rank of its group.
struct RmaOperation {
  enum class Kind : std::uint8_t { get, put, add };
  Kind kind = Kind::get;
  int owner = 0;
  std::byte* remote = nullptr;  // where the owner's elements begin; null on devices without values
  Tensor local{};
};

/// Carries out the operation on the calling thread. Does nothing if there are no values.
void carry_out(const RmaOperation& access);

/// The memory of one rank: its first byte, and its size.
struct Exposed {
  std::shared_ptr<std::byte> first{};  // null on devices without values
  std::size_t bytes = 0;
};

/// A window that checks the arguments and counts the bytes, equally for all implementations. They
/// only carry out the operation.
class RmaWindow : public Window {
 public:
  WorkPtr get(int owner, std::int64_t begin, const Tensor& out) final;
  WorkPtr put(const Tensor& in, int owner, std::int64_t begin) final;
  WorkPtr add(const Tensor& in, int owner, std::int64_t begin) final;
  Traffic traffic() const final { return traffic_; }

 protected:
  /// `own` is the tensor of the rank with number `rank`; `all` has the memory of every rank.
  RmaWindow(std::string group, int rank, Tensor own, std::vector<Exposed> all);

  virtual WorkPtr begin(const RmaOperation& access) = 0;

 private:
  RmaOperation access(RmaOperation::Kind kind, int owner, std::int64_t begin,
                      const Tensor& local) const;

  std::string group_;
  int rank_;
  Tensor own_;
  std::vector<Exposed> all_;
  Traffic traffic_;
};

}  // namespace ringside::peer
