#include "core/base/error.h"
#include "core/base/module.h"
#include "peer/comm/gloo/gloo_module.h"

namespace ringside::peer {
namespace {

MakeGloo* load() {
  try {
    return reinterpret_cast<MakeGloo*>(module_symbol(gloo_module_name, gloo_module_make));
  } catch (const Error& error) {
    throw Error(
        "Gloo: {}; install the package libgloo-dev if it is missing, then run scripts/setup",
        error.what());
  }
}

}  // namespace

std::unique_ptr<Wire> make_gloo_wire(Store& store, const Group& group, const std::string& address,
                                     double timeout_s) {
  std::unique_ptr<Wire> wire;
  (*load())({store, group, address, timeout_s}, wire);
  return wire;
}

std::string why_no_gloo() {
  try {
    load();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace ringside::peer
