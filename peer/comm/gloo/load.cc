#include "peer/comm/gloo/gloo_module.h"

namespace ringside::peer {

std::unique_ptr<Wire> make_gloo_wire(Store& store, const Group& group, const std::string& address,
                                     double timeout_s) {
  return load_module<GlooModule>(gloo_module).make({store, group, address, timeout_s});
}

std::string why_no_gloo() { return why_no_module(gloo_module); }

}  // namespace ringside::peer
