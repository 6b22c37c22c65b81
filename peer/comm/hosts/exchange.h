// The steps of a collective by an algorithm, over the wire.
#pragma once

#include <array>
#include <vector>

#include "core/tensor/tensor.h"
#include "peer/comm/algorithms/exchange.h"
#include "peer/comm/hosts/host_group.h"

namespace ringside::peer {

/// Runs within a collective of a HostGroup. Every message goes over the wire, also between ranks of
/// one host. Values that are to be added to others arrive in memory of this object first.
class HostExchange : public Exchange {
 public:
  /// `operands` are in the order of the values of Array. All arguments outlive this object.
  HostExchange(HostGroup& host_group, const std::array<Tensor, 3>& operands)
      : host_group_(host_group), operands_(operands) {}

  int rank() const override { return host_group_.group().rank; }
  const std::vector<int>& hosts() const override { return host_group_.hosts().of_ranks; }
  std::int64_t count(Array array) const override { return of(array).count(); }
  void step(const std::vector<Sending>& sends, const std::vector<Receiving>& receives) override;
  void copy(const Elements& from, const Elements& to) override;
  void add(const Elements& from, const Elements& to) override;

 private:
  const Tensor& of(Array array) const { return operands_[static_cast<std::size_t>(array)]; }
  std::span<std::byte> memory(const Elements& elements) const;

  HostGroup& host_group_;
  const std::array<Tensor, 3>& operands_;
  std::vector<std::byte> arrived_;
};

}  // namespace ringside::peer
