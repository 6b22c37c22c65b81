// What workers push in `ringside bench ps`, and what they have to get back.
#pragma once

#include <cstdint>
#include <span>

namespace ringside {

/// Worker `worker`'s gradient of a round. Whatever stands at a place differs from what stood there
/// in the 30 rounds before, so values of an earlier round are wrong. The elements are small whole
/// numbers, whose sums are exact in every order.
void fill_gradient(std::span<float> gradient, int worker, std::int64_t round);

/// The optimizer of the bench's servers is SGD with a learning rate and a weight decay of 1, which
/// makes p - (g + p) = -g of a value p: a reply is minus the sum of the gradients of its own round,
/// and nothing of earlier rounds is in it. The number of elements that are something else.
/// `values` are the elements from `first` on, which one server keeps as one range. If all workers'
/// gradients must be in the sum (bsp), `all` is true. Else some must be, the same ones throughout
/// the range.
std::int64_t count_wrong_values(std::span<const float> values, std::int64_t first,
                                std::int64_t round, int workers, bool all);

}  // namespace ringside
