// The algorithms of collectives over messages: one file for each, and a row in one table.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/comm/algorithm.h"
#include "core/comm/sums.h"
#include "peer/comm/algorithms/exchange.h"
#include "peer/comm/collective.h"

namespace ringside::peer {

/// One algorithm. Every rank ends with the same bits. `hosts` are those of Exchange::hosts().
struct AlgorithmRow {
  Algorithm algorithm = Algorithm::ring;
  std::string_view summary;
  /// The programs of one rank. A reduce_scatter may overwrite all of its `in`.
  void (*all_reduce)(Exchange&) = nullptr;
  void (*reduce_scatter)(Exchange&) = nullptr;
  void (*all_gather)(Exchange&) = nullptr;
  /// The order in which an all_reduce or a reduce_scatter of `count` elements adds up the values of
  /// the ranks; the sums cover all elements, in order.
  std::vector<Sum> (*sums)(Collective::Kind kind, std::int64_t count,
                           const std::vector<int>& hosts) = nullptr;
  /// The number of elements of scratch memory that an all_reduce of `count` elements needs; null if
  /// it needs none.
  std::int64_t (*scratch)(std::int64_t count) = nullptr;
  /// Throws Error if ranks on these hosts cannot use the algorithm; null if all can.
  void (*check)(const std::vector<int>& hosts) = nullptr;
};

/// Each of these is at the end of the file with the algorithm's name.
AlgorithmRow ring_row();
AlgorithmRow tree_row();
AlgorithmRow recursive_doubling_row();
AlgorithmRow halving_doubling_row();
AlgorithmRow hierarchical_row();
AlgorithmRow naive_row();

const std::vector<AlgorithmRow>& algorithm_rows();
/// The row of an algorithm of messages (is_program_of_messages()).
const AlgorithmRow& find_algorithm(Algorithm algorithm);

/// Runs this rank's part of the collective. Operations for which a row has no program go the same
/// way under every algorithm, with p ranks: a broadcast by a binomial tree (ceil(log2 p) steps), an
/// all_to_all in p - 1 rounds of pairs, a barrier by dissemination (ceil(log2 p) steps of empty
/// messages).
void run_algorithm(const AlgorithmRow& row, const Collective& call, Exchange& exchange);

/// The elements of scratch memory that the collective of `count` elements needs.
std::int64_t scratch_of(const AlgorithmRow& row, Collective::Kind kind, std::int64_t count);

}  // namespace ringside::peer
