#include "experiments/runner/report/readable_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ringside::runner {
namespace {

using nlohmann::ordered_json;

std::string on_one_line(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

bool takes_one_line(const ordered_json& value) {
  if (value.empty() || !value.is_structured()) return true;
  return value.is_array() && std::none_of(value.begin(), value.end(), [](const ordered_json& one) {
           return one.is_structured();
         });
}

void add(std::string& out, const ordered_json& value, const std::string& indent) {
  if (takes_one_line(value)) {
    out += on_one_line(value);
    return;
  }
  const std::string deeper = indent + "  ";
  const bool object = value.is_object();
  out += object ? "{" : "[";
  const char* between = "\n";
  for (const auto& [key, member] : value.items()) {
    out += between + deeper;
    between = ",\n";
    if (object) out += on_one_line(key) + ": ";
    add(out, member, deeper);
  }
  out += "\n" + indent + (object ? "}" : "]");
}

}  // namespace

std::string readable_json(const ordered_json& value) {
  std::string out;
  add(out, value, "");
  return out + "\n";
}

}  // namespace ringside::runner
