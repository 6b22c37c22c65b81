// The module with Gloo: its name and its functions.
#pragma once

#include "core/base/module.h"
#include "peer/comm/gloo/wire.h"

namespace ringside::peer {

struct GlooRequest {
  Store& store;
  Group group;
  std::string address;
  double timeout_s = 60;
};

struct GlooModule {
  std::unique_ptr<Wire> (*make)(const GlooRequest& request);
};

inline const Module gloo_module{
    "libringside_gloo.so", "Gloo",
    "install the package libgloo-dev if it is missing, then run scripts/setup"};

}  // namespace ringside::peer
