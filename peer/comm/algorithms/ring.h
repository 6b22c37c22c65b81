// A ring through a team of p ranks (Thakur, Rabenseifner and Gropp 2005, section 3.4; Patarasuk and
// Yuan 2009). Chunk i belongs to the member at place i. In every step a member sends one chunk to
// the next member, so the whole costs p - 1 steps and sends (p-1)/p of the bytes.
#pragma once

#include <vector>

#include "core/comm/sums.h"
#include "peer/comm/algorithms/team.h"

namespace ringside::peer {

/// Sums every chunk over the team, at the member that it belongs to; the memory of other chunks is
/// overwritten.
void ring_scatter(Exchange& exchange, const Team& team, const std::vector<Chunk>& chunks);
/// Gives every member all chunks.
void ring_gather(Exchange& exchange, const Team& team, const std::vector<Chunk>& chunks);
/// The additions by which ring_scatter() sums up the chunk that belongs to the member at `place`.
std::vector<Addition> ring_additions(const Team& team, int place);

}  // namespace ringside::peer
