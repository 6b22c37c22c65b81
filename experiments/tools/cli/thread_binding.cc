#include "experiments/tools/cli/thread_binding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <strings.h>

#include <algorithm>
#include <string_view>

#include "core/base/utf8.h"

namespace ringside::tools::cli {
namespace {

/// GNU's library reads the first three. LLVM's and Intel's, which other programs' ranks may load
/// (scheme torch-ddp), read the first two and the others.
constexpr std::string_view binding[] = {"OMP_PROC_BIND=", "OMP_PLACES=",    "GOMP_CPU_AFFINITY=",
                                        "KMP_AFFINITY=",  "KMP_HW_SUBSET=", "KMP_PLACE_THREADS="};

bool binds(std::string_view variable) {
  return std::any_of(std::begin(binding), std::end(binding),
                     [&](std::string_view name) { return variable.starts_with(name); });
}

}  // namespace

std::size_t take_thread_binding(char** environment, std::span<const char*> taken) {
  for (char** variable = environment; *variable; ++variable)
    if (strcasecmp(*variable, "OMP_PROC_BIND=false") == 0) return 0;
  std::size_t count = 0;
  char** kept = environment;
  for (char** variable = environment; *variable; ++variable) {
    if (count < taken.size() && binds(*variable))
      taken[count++] = *variable;
    else
      *kept++ = *variable;
  }
  *kept = nullptr;
  return count;
}

std::string thread_binding_text(const std::vector<std::string>& taken, int cores) {
  std::vector<std::string> shown;
  for (const std::string& variable : taken) shown.push_back(utf8_text(variable));
  return fmt::format(
      "left out of the environment: {}, which would bind all ranks to the same core; they may run "
      "on {} core{}",
      fmt::join(shown, ", "), cores, cores == 1 ? "" : "s");
}

}  // namespace ringside::tools::cli
