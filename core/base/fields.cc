#include "core/base/fields.h"

#include <algorithm>

namespace ringside {

bool equal(const Fields& a, const Fields& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Field& x, const Field& y) {
    return x.name == y.name && std::visit(
                                   []<class X, class Y>(const X* left, const Y* right) {
                                     if constexpr (std::same_as<X, Y>) return *left == *right;
                                     return false;
                                   },
                                   x.value, y.value);
  });
}

}  // namespace ringside
