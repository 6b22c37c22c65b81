// Table 1 of the ZeRO paper (Rajbhandari et al., SC'20): bytes of model states on each of N GPUs
// for models of 7.5B, 128B and 1T parameters in mixed precision with Adam. Every figure is what the
// schemes zero1, zero2 and zero3 allocate on a simulated device, as one of N ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "core/comm/store.h"
#include "core/comm/window.h"
#include "experiments/runner/registry/registry.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

/// A member of a group whose other ranks do not exist: good for everything but communication.
class NoPeers : public Communicator {
 public:
  using Communicator::Communicator;
  WorkPtr all_reduce(const Tensor&) override { return alone(); }
  WorkPtr reduce_scatter(const Tensor&, const Tensor&) override { return alone(); }
  WorkPtr all_gather(const Tensor&, const Tensor&) override { return alone(); }
  WorkPtr broadcast(const Tensor&, int) override { return alone(); }
  WorkPtr all_to_all(const Tensor&, const Tensor&) override { return alone(); }
  WorkPtr send(const Tensor&, int) override { return alone(); }
  WorkPtr recv(const Tensor&, int) override { return alone(); }
  void barrier() override { alone(); }
  std::unique_ptr<Window> expose(const Tensor&) override { return alone(), nullptr; }
  Tensor share(std::int64_t, MemoryKind, DType) override { return {}; }
  std::unique_ptr<Communicator> split(int, int) override { return nullptr; }
  Traffic traffic() const override { return {}; }

 private:
  [[noreturn]] static WorkPtr alone() { throw Error("the rank has no peers"); }
};

/// GPTs with precisely the numbers of parameters that the paper's columns name, so that no figure
/// has to be scaled: layers and width have usual proportions, and the vocabulary makes up the rest.
struct Shape {
  const char* name;
  std::int64_t parameters, layers, heads, width, vocabulary;
};
constexpr Shape models_of_table[] = {{"7.5B", 7'500'000'000, 38, 40, 4000, 49'480},
                                     {"128B", 128'000'000'000, 101, 80, 10'240, 86'781},
                                     {"1T", 1'000'000'000'000, 127, 200, 25'600, 45'423}};

/// The bytes of model states that rank 0 of `world` holds, as the paper counts them.
double model_states(const Shape& shape, const std::string& scheme, int world) {
  RunPlan plan;
  plan.scheme = scheme;
  plan.options = find_scheme(scheme).defaults;
  plan.world = world;
  plan.model = {.kind = "gpt",
                .layers = shape.layers,
                .heads = shape.heads,
                .width = shape.width,
                .context = 1024,
                .vocabulary = shape.vocabulary,
                .tied = true};
  plan.train.precision = Precision::bf16;
  plan.device.kind = "sim";
  plan.cluster = testing::small_cluster(world);
  plan.cluster->device.memory_gb = 1e6;
  plan.ranks = {{.rank = 0, .worker = 0}};
  const auto device = find_device("sim").make(plan, 0, nullptr);
  Model model = make_model(plan.model, *device);
  EXPECT_EQ(model.parameter_count(), shape.parameters);
  MemoryStore store;
  Timeline timeline(*device);
  const RankContext context{plan,
                            0,
                            *device,
                            store,
                            timeline,
                            nullptr,
                            {},
                            Links([](const RankContext&, const Group& group) {
                              return std::make_unique<NoPeers>(group.rank, group.size);
                            })};
  const auto states = find_scheme(scheme).make(context, plan.options);
  states->attach(model);
  const MemoryUse held = device->ledger().current();
  const std::int64_t all =
      held[MemoryKind::parameter] + held[MemoryKind::gradient] + held[MemoryKind::optimizer];
  EXPECT_EQ(held.total(), all) << "nothing else is held between two steps";
  return static_cast<double>(all);
}

/// The figure as the paper prints it: a whole number is cut, as 4187 for 4187.5 and 513 for 513.5,
/// and a number with decimals is rounded to the nearest, as 41.3 for 41.25.
double printed(double gb, const std::string& like) {
  const std::size_t point = like.find('.');
  if (point == std::string::npos) return std::floor(gb);
  const double digits = std::pow(10.0, static_cast<double>(like.size() - point - 1));
  return std::floor(gb * digits + 0.5) / digits;
}

struct Line {
  int world;
  std::array<const char*, 3> gb[std::size(models_of_table)];  // stages 1, 2 and 3 of each model
};
constexpr Line table[] = {
    {1, {{"120", "120", "120"}, {"2048", "2048", "2048"}, {"16000", "16000", "16000"}}},
    {4, {{"52.5", "41.3", "30"}, {"896", "704", "512"}, {"7000", "5500", "4000"}}},
    {16, {{"35.6", "21.6", "7.5"}, {"608", "368", "128"}, {"4750", "2875", "1000"}}},
    {64, {{"31.4", "16.6", "1.88"}, {"536", "284", "32"}, {"4187", "2218", "250"}}},
    {256, {{"30.4", "15.4", "0.47"}, {"518", "263", "8"}, {"4046", "2054", "62.5"}}},
    {1024, {{"30.1", "15.1", "0.12"}, {"513", "257", "2"}, {"4011", "2013", "15.6"}}}};

TEST(TableOfZero, HasThePrintedDigits) {
  const std::string schemes[] = {"zero1", "zero2", "zero3"};
  for (const Line& line : table)
    for (std::size_t m = 0; m < std::size(models_of_table); ++m)
      for (std::size_t stage = 0; stage < 3; ++stage) {
        SCOPED_TRACE(
            fmt::format("{} of {} on {}", schemes[stage], models_of_table[m].name, line.world));
        const std::string expected = line.gb[m][stage];
        const double gb = model_states(models_of_table[m], schemes[stage], line.world) * 1e-9;
        EXPECT_DOUBLE_EQ(printed(gb, expected), std::stod(expected));
        // The closed form with K = 12; padding adds less than a hundred thousandth.
        const double p = static_cast<double>(models_of_table[m].parameters) * 1e-9, n = line.world;
        const double form = stage == 0   ? 4 * p + 12 * p / n
                            : stage == 1 ? 2 * p + 14 * p / n
                                         : 16 * p / n;
        EXPECT_GE(gb, form * (1 - 1e-12));
        EXPECT_LE(gb, form * (1 + 1e-5));
      }
}

}  // namespace
}  // namespace ringside::runner
