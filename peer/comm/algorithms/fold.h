// Any number of ranks, seen as a power of two.
#pragma once

namespace ringside::peer {

/// Algorithms whose partners differ in one bit of their numbers need a power of two, q. Of p ranks
/// the first 2 * (p - q) form pairs, each of which takes part as one player: its even rank leads,
/// and the odd rank follows (Thakur, Rabenseifner and Gropp 2005, section 4). Players are numbered
/// from 0 to q - 1 in rank order.
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

}  // namespace ringside::peer
