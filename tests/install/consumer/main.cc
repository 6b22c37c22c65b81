// A program that uses a part of the library, and has a scheme of its own.
#include <cstdio>
#include <memory>

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

std::unique_ptr<ringside::SyncScheme> make_mine(const ringside::RankContext& context) {
  return std::make_unique<Mine>(context);
}

int main() { std::puts(ringside::has_module("libringside_nobody.so") ? "a module" : "no module"); }
