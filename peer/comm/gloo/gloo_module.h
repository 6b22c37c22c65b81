// The name of the module that contains Gloo, and the function in it.
#pragma once

#include "peer/comm/gloo/wire.h"

namespace ringside::peer {

inline constexpr const char* gloo_module_name = "libringside_gloo.so";
inline constexpr const char* gloo_module_make = "ringside_gloo_make";

struct GlooRequest {
  Store& store;
  Group group;
  std::string address;
  double timeout_s = 60;
};
using MakeGloo = void(const GlooRequest&, std::unique_ptr<Wire>& out);

}  // namespace ringside::peer
