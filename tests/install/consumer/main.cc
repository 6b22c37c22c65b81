// A program that uses a part of the library, and has a scheme of its own.
#include <cstdio>
#include <type_traits>

#include "core/base/module.h"
#include "core/scheme/scheme.h"

namespace {

class Mine : public ringside::SyncScheme {
 public:
  explicit Mine(const ringside::RankContext& context) : SyncScheme(context) {}
  void attach(ringside::Model&) override {}
  bool step(const ringside::StepInfo&) override { return true; }
  void visit_parameters(const ParameterVisitor&) override {}
};

}  // namespace

int main() {
  static_assert(!std::is_abstract_v<Mine>);
  ringside::SyncScheme* (*make)(const ringside::RankContext&) =
      [](const ringside::RankContext& context) -> ringside::SyncScheme* {
    return new Mine(context);
  };
  if (!make) return 1;
  std::puts(ringside::has_module("libringside_nobody.so") ? "a module" : "no module");
}
