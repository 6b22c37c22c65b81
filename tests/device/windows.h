// The shapes of windows over images, for tests of convolutions and pools.
#pragma once

#include <string>

#include "tests/device/reference/images.h"

namespace ringside {

inline Shape x_shape(const reference::Windows& o) { return {o.B, o.H, o.W, o.C}; }
inline Shape y_shape(const reference::Windows& o) { return {o.B, o.P(), o.Q(), o.K}; }
inline Shape weight_shape(const reference::Windows& o) {
  return {o.K, o.R, o.S, o.group_channels()};
}
inline std::string text(const reference::Windows& o) {
  return x_shape(o).text() + " to " + y_shape(o).text() + ", " + std::to_string(o.R) + "x" +
         std::to_string(o.S) + " stride " + std::to_string(o.stride) + " padding " +
         std::to_string(o.padding.rows) + " and " + std::to_string(o.padding.columns) +
         ", groups " + std::to_string(o.groups);
}

}  // namespace ringside
