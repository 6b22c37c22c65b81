// The folding of any number of ranks to a power of two.
#pragma once

#include <vector>

#include "peer/comm/algorithms/team.h"

namespace ringside::peer {

/// Algorithms whose partners differ in one bit of their numbers need q players, a power of two. Of
/// p ranks the first 2 * (p - q) form pairs, and each pair is one player: its even rank leads, and
/// its odd rank follows (Thakur, Rabenseifner and Gropp 2005, section 4). Every other rank is a
/// player by itself. Players are numbered from 0 to q - 1 in rank order.
struct Fold {
  explicit Fold(int ranks) {
    while (2 * players <= ranks) players *= 2;
    pairs = ranks - players;
  }

  int players = 1;  // q
  int pairs = 0;    // p - q

  bool follows(int rank) const { return rank < 2 * pairs && rank % 2 == 1; }
  bool leads_a_pair(int rank) const { return rank < 2 * pairs && rank % 2 == 0; }
  int player_of(int rank) const { return rank < 2 * pairs ? rank / 2 : rank - pairs; }
  int leader(int player) const { return player < pairs ? 2 * player : player + pairs; }
};

/// The array divided among the players: player i has the chunks of the ranks that it stands for.
class Segments {
 public:
  Segments(const Fold& fold, const std::vector<Chunk>& chunks) : fold_(fold), chunks_(chunks) {}

  const Elements& of_rank(int rank) const { return chunks_[static_cast<std::size_t>(rank)][0]; }
  /// The elements of players [first, first + count).
  Elements of_players(int first, int count) const {
    const int last = first + count - 1;
    const Elements& begin = of_rank(fold_.leader(first));
    const Elements& end = of_rank(fold_.leader(last) + (last < fold_.pairs ? 1 : 0));
    return {begin.array, begin.begin, end.begin + end.count - begin.begin};
  }

 private:
  const Fold& fold_;
  const std::vector<Chunk>& chunks_;
};

}  // namespace ringside::peer
