#include <gtest/gtest.h>

#include <set>

#include "core/plan/same_run.h"
namespace ringside {
namespace {

/// Changes the value of a field.
struct Change {
  void operator()(bool* value) const { *value = !*value; }
  void operator()(std::int64_t* value) const { *value += 1; }
  void operator()(double* value) const { *value += 1; }
  void operator()(std::string* value) const { *value += "x"; }
  void operator()(std::vector<std::string>* value) const { value->emplace_back("x"); }
  void operator()(std::vector<double>* value) const { value->push_back(1); }
  void operator()(std::vector<std::pair<std::int64_t, std::int64_t>>* value) const {
    value->emplace_back(1, 1);
  }
  void operator()(const Choice& choice) const {
    const EnumNames names = choice.names();
    choice.set(choice.name() == names[0] ? names[1] : names[0]);
  }
  void operator()(const ListOrName& value) const {
    value.name.set(value.as_list);
    value.list->push_back(1);
  }
  template <class Other>
  void operator()(const Other&) const {
    FAIL() << "the test cannot change a field of this type";
  }
};

/// The keys of an experiment file in which runs of the same training may differ.
std::set<std::string> free_keys(const RunPlan& plan) {
  std::set<std::string> out;
  const auto look = [&](const std::string& table, auto member) {
    auto parts = plan.*member;
    for (std::size_t i = 0; i < fields_of(parts).size(); ++i) {
      RunPlan other = plan;
      const Field field = fields_of(other.*member)[i];
      std::visit(Change(), field.value);
      EXPECT_FALSE(other == plan) << field.name;
      if (same_training(plan, other)) out.insert(table + "." + std::string(field.name));
    }
  };
  look("model", &RunPlan::model);
  look("data", &RunPlan::data);
  look("train", &RunPlan::train);
  look("optimizer", &RunPlan::optimizer);
  look("device", &RunPlan::device);
  look("sim", &RunPlan::sim);
  return out;
}

TEST(SameTraining, IsDecidedByEverythingButWhatIsNamedHere) {
  std::set<std::string> keys = {"model.batch_norm_group",
                                "train.warmup",
                                "train.batch_per_rank",
                                "train.micro_batch",
                                "train.accumulation",
                                "train.reduce",
                                "train.recompute",
                                "train.timeout_s",
                                "optimizer.lr",
                                "optimizer.lr_scaling",
                                "device.threads",
                                "device.unfused",
                                "device.cluster",
                                "sim.message_ranks",
                                "sim.traced_ranks",
                                "sim.network_gbit_s",
                                "sim.jitter",
                                "sim.servers_apart",
                                "train.shares",
                                "train.offload",
                                "device.slow",
                                "device.peak_tflops",
                                "device.jitter",
                                "device.efficiency",
                                "sim.spread",
                                "sim.device_share",
                                "sim.framework",
                                "sim.decode",
                                "sim.messages",
                                "sim.intervals",
                                "sim.queue_kb",
                                "sim.drops",
                                "sim.tuning"};
  RunPlan plan;
  plan.cluster.emplace();
  EXPECT_EQ(free_keys(plan), keys);
  plan.cluster.reset();
  keys.insert("sim.numerics");
  EXPECT_EQ(free_keys(plan), keys) << "nothing is simulated";
}

TEST(SameTraining, MayRunAnywhereUnderAnyScheme) {
  RunPlan plan, other;
  plan.cluster.emplace();
  other = plan;
  other.id = "other";
  other.listing.label = "other";
  other.purpose = Purpose::reference;
  other.scheme = "ps";
  other.world = 4;
  other.servers = 2;
  other.repeat = 3;
  other.sums.groups = 4;
  other.cluster->machines = 8;
  other.cluster->slow = {{.machine = 1, .factor = 2}};
  other.ranks.resize(4);
  EXPECT_TRUE(same_training(plan, other));
}

}  // namespace
}  // namespace ringside
