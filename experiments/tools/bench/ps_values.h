// The values that workers push in `ringside bench ps`, and a check of the replies.
#pragma once

#include <cstdint>
#include <span>

#include "ps/protocol/consistency.h"

namespace ringside::tools::bench {

/// Worker `worker`'s gradient of a round. Each element differs from its values in the 30 rounds
/// before, so values of an earlier round are recognised as wrong. The elements are small whole
/// numbers, whose sums are exact in every order.
void fill_gradient(std::span<float> gradient, int worker, std::int64_t round);

/// The optimizer of the bench's servers is SGD with a learning rate and a weight decay of 1, which
/// makes p - (g + p) = -g of a value p: values are minus the sum of one update's gradients, and
/// nothing of earlier updates is in them. All workers begin a round together. The allowed values of
/// a range are therefore minus
/// - bsp: the sum of all workers' gradients of the round;
/// - ssp: the same, or the sum of the round before (0 in round 0), if a worker has not pushed yet;
/// - asp: the gradient of the round of the worker whose push arrived last.
/// Returns the number of elements that are something else. `values` are the elements from `first`
/// on, which one server keeps as one range.
std::int64_t count_wrong_values(std::span<const float> values, std::int64_t first,
                                std::int64_t round, int workers, ps::Consistency consistency);

}  // namespace ringside::tools::bench
