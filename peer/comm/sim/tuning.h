// NCCL's choice of algorithm and protocol by size, and the cost of each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ringside::peer {

/// The algorithms of a collective: rings; or a double binary tree between machines with a chain
/// within each machine.
enum class NcclTopology : std::uint8_t { ring, tree };

/// A figure for each kind of link: NVLink, PCIe, network.
enum class LinkKind : std::uint8_t { nvlink, pcie, network };
using ByLink = std::array<double, 3>;

/// One combination of an algorithm and a protocol. The protocols differ in the way in which a
/// receiver notices that data has arrived. Simple: by a counter behind a fence, once a chunk. LL
/// ("low latency"): by a flag beside every 4 bytes of data, which costs half of the bandwidth or
/// more.
struct TuningRow {
  NcclTopology shape = NcclTopology::ring;
  std::string_view protocol;
  /// Microseconds of a collective besides steps and bytes. None: CollectiveSpec::base_us.
  std::optional<double> base_us;
  /// Microseconds of a step over each kind of link (see step_us()).
  ByLink step_us;
  /// The largest share of the links' bandwidth at which data moves.
  double share = 1;
  /// The upper limit on the rate of all rings or trees of a group together, as nccl-tests count it
  /// (busbw, GB/s); 0: no limit.
  double most_gbs = 0;
  /// Trees: the share of that rate for arrays of 64 B, 128 B, 256 B and so on. Empty: all of it.
  std::span<const double> by_size{};
};

/// All combinations. The first one is the ring with the protocol Simple: cluster files state its
/// steps (LinkSpec::step_us).
std::span<const TuningRow> tuning_rows();

/// Microseconds of a row's step over a link whose LinkSpec::step_us is `of_link`. The excess over
/// NCCL's own figure, such as the latency of Ethernet, is added to all rows.
double step_us(const TuningRow& row, LinkKind link, double of_link);

/// The cost of a row in a group.
struct Way {
  const TuningRow* row = nullptr;
  double base = 0, latency = 0;  // seconds, of a collective and of all its steps
  /// For each byte of the array: the bytes that move over each hop of a ring, and the seconds that
  /// this takes. Trees load links as rings do, so their bytes are given as bytes over the hops of
  /// rings: as many as take the trees' time.
  double over_hop = 0, per_byte = 0;
  double gbs = 0;  // busbw
};

/// The share of the links' bandwidth at which the way moves an array of so many bytes.
double share_of(const Way& way, double bytes);

/// The fastest of the ways for an array of so many bytes; of equally fast ones, the first. Moving
/// the bytes takes `longer` times as long as the ways say. `ways` is not empty.
const Way& fastest(std::span<const Way> ways, double bytes, double longer = 1);

}  // namespace ringside::peer
