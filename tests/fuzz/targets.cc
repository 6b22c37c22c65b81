#include "tests/fuzz/targets.h"

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "core/models/mlp.h"
#include "core/plan/slices.h"
#include "ps/protocol/archive.h"
#include "ps/schemes/connect.h"
#include "ps/schemes/master.h"
#include "tests/fuzz/conversation.h"
#include "tests/ps/run.h"

namespace ringside::fuzz {
namespace {

constexpr std::size_t most_text = 1024;  // of a header that is written

/// A unit that has parameters and does nothing.
struct Range : Unit {
  Range(std::int64_t count, Device& device) : Unit("range", device) {
    declare().add("values", {count}, {Init::Kind::normal, 1});
  }
  Tensor forward(const Tensor& input, const Pass&, Saved&) override { return input; }
  Tensor backward(const Tensor& grad_output, Saved&) override { return grad_output; }
};

/// Objects that live as long as the program, because they are slow to make.
struct World {
  World() {
    model.units.push_back(std::make_unique<Range>(50, *device));
    model.units.push_back(std::make_unique<Range>(10, *device));
    plan.train.steps = 6;
  }
  std::unique_ptr<Device> device = make_cpu_device(1);
  Model model;
  RunPlan plan = testing::tiny_plan(2, 1, true, 2);
  testing::RandomTokens data{plan.model};
  Loader loader{data, *device, plan.train.global_batch, 1};
  Model mlp = make_mlp(plan.model, *device);
};

World& world() {
  static World one;
  return one;
}

/// Also asks for inputs and losses.
class Lesson : public Conversation {
 public:
  Lesson(Input& input, const std::vector<ps::Chunk>& chunks, const ps::ServerConfig& config)
      : Conversation(input, *world().device, chunks, config), asked_(2) {}

  void shape(ps::Message& message, int worker) override {
    ps::Header& h = message.header;
    if (h.kind != ps::Kind::inputs && h.kind != ps::Kind::loss) return;
    const RunPlan& plan = world().plan;
    std::int64_t& asked = asked_[static_cast<std::size_t>(worker) % asked_.size()];
    if (h.kind == ps::Kind::inputs && input().below(4) != 0) ++asked;
    const std::int64_t number = std::max<std::int64_t>(0, asked - 1);
    h.step = input().number(number / plan.train.accumulation % plan.train.steps);
    h.micro_batch = input().number(number % plan.train.accumulation);
    if (h.kind == ps::Kind::inputs) {
      if (h.step < 0 || h.step >= plan.train.steps || h.micro_batch < 0 ||
          h.micro_batch >= plan.train.accumulation || worker >= plan.world)
        return;
      const BatchSlice slice = slice_of(plan, worker, h.step, h.micro_batch);
      h.begin = input().number(slice.first);
      h.count = input().number(slice.count);
    } else if (input().below(8) != 0) {
      message.frames = {frame(DType::f32, 6 * plan.model.vocabulary)};
    }
  }

 private:
  std::vector<std::int64_t> asked_;  // by worker
};

}  // namespace

void decode(std::span<const std::byte> bytes) {
  try {
    const ps::Decoded decoded = ps::decode(bytes);
    require(bytes.size() <= ps::max_header_bytes, "long headers are refused");
    require(decoded.frames.size() <= bytes.size(), "frames have descriptions");
    if (!decoded.frames.empty()) return;
    const auto again = ps::encode({decoded.header, {}});
    require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()) ||
                decoded.header.text.size() > most_text,
            "a header is written as it was read");
  } catch (const Error&) {  // refused
  }
}

/// One of the ways to keep workers in step.
void choose_rules(Input& input, ps::ServerConfig& config) {
  constexpr ps::Consistency all[] = {ps::Consistency::bsp, ps::Consistency::ssp,
                                     ps::Consistency::asp};
  ps::ConsistencyRules& rules = config.rules;
  rules.consistency = all[input.below(3)];
  if (rules.consistency == ps::Consistency::ssp)
    rules.staleness_bound = static_cast<std::int64_t>(input.below(3));
  if (rules.consistency == ps::Consistency::bsp)
    rules.backup_workers = static_cast<int>(input.below(static_cast<std::size_t>(config.workers)));
  if (rules.consistency != ps::Consistency::asp) return;
  switch (input.below(4)) {
    case 1:
      config.delay_compensation = 2;
      break;
    case 2:
      config.staleness_lr = ps::StalenessLr::inverse;
      break;
    case 3:
      rules.consistency = ps::Consistency::easgd;
      config.moving_rate = 0.5;
      config.period = 2;
      break;
    default:
      break;
  }
}

void server(std::span<const std::byte> bytes) {
  Input input(bytes);
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
  const int servers = 1 + static_cast<int>(input.below(2));
  ps::ServerConfig config{.workers = 1 + static_cast<int>(input.below(3)),
                          .token = 77,
                          .dtype = dtypes[input.below(3)],
                          .steps = 8,
                          .pushes = 1 + static_cast<std::int64_t>(input.below(2))};
  if (input.below(2) == 1) config.optimizer.clip_norm = 1;
  const bool updates_alone =
      config.pushes == 1 && config.optimizer.clip_norm == 0 && config.dtype != DType::f16;
  if (updates_alone) choose_rules(input, config);
  const auto chunks = ps::partition({50, 10}, servers, 128);
  ps::ParameterServer server(world().model, chunks, *world().device, config);
  Conversation(input, *world().device, chunks, config).hold(server);
}

void master(std::span<const std::byte> bytes) {
  Input input(bytes);
  World& w = world();
  const auto chunks = ps::partition(w.mlp, 1);
  const ps::ServerConfig config{.workers = 2, .token = 77, .steps = w.plan.train.steps};
  ps::Master master(w.mlp, chunks, *w.device, config, w.loader, w.plan);
  Lesson(input, chunks, config).hold(master);
}

}  // namespace ringside::fuzz
