// Records of which every field differs from its default say the same after they were kept in a
// folder of results: no table of a report reads a figure that rows do not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/base/json_fields.h"
#include "experiments/runner/report/report.h"
#include "experiments/runner/report/report_page.h"
#include "experiments/runner/report/summary_tables.h"
#include "experiments/runner/results/results.h"
#include "experiments/runner/results/saved_results.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

using ::testing::ElementsAre;

/// Gives every value of some fields another one than its default, all of them different, and large
/// enough to be seen in megabytes. Lists and optionals get elements.
class OtherValues {
 public:
  explicit OtherValues(bool flags) : flags_(flags) {}

  void give(const Fields& fields) {
    for (const Field& field : fields) give(field.value);
  }

 private:
  void give(const FieldValue& value) {
    std::visit([this](const auto& one) { put(one); }, value);
  }

  std::int64_t next() { return 1'000'000 * ++count_ + 17; }
  void put(bool* out) {
    if (flags_) *out = !*out;
  }
  void put(int* out) { *out = static_cast<int>(++count_); }
  void put(std::int64_t* out) { *out = next(); }
  void put(double* out) { *out = static_cast<double>(next()) + 0.25; }
  void put(std::string* out) { *out = "text " + std::to_string(++count_); }
  void put(std::optional<double>* out) { put(&out->emplace()); }
  void put(const Choice& out) {
    const auto other = std::ranges::find_if(
        out.names(), [&](std::string_view name) { return name != out.name(); });
    if (other != out.names().end()) out.set(*other);
  }
  template <class Value>
  void put(std::vector<Value>* out) {
    out->resize(2);
    for (Value& one : *out) put(&one);
  }
  template <class First, class Second>
  void put(std::pair<First, Second>* out) {
    put(&out->first), put(&out->second);
  }
  void put(const Fields& out) { give(out); }
  void put(const Structs& out) {
    out.resize(out.is_list() ? 2 : 1);
    for (std::size_t i = 0; i < out.size(); ++i) give(out[i]);
  }
  void put(const Table&) {}
  void put(const NumberOrName&) { ADD_FAILURE() << "no record has such a field"; }
  void put(const ListOrName&) { ADD_FAILURE() << "no record has such a field"; }

  bool flags_;
  std::int64_t count_ = 0;
};

struct KeptCase {
  const char* name;
  const char* scheme;
  int world = 0;
  std::int64_t pipeline = 1;
  bool flags = false;  // whether flags differ from their defaults too
};

RunPlan plan_of(const KeptCase& one) {
  ExperimentConfig config = made_up_experiment();
  config.train.global_batch = 4;
  config.train.accumulation = 2;
  config.mesh.pipeline = one.pipeline;
  return plan_training(config, one.scheme, one.world);
}

/// Fields by which others are found keep their meaning.
std::vector<RankRecord> ranks_of(const RunPlan& plan, OtherValues& values) {
  std::vector<RankRecord> out(plan.ranks.size());
  for (std::size_t r = 0; r < out.size(); ++r) {
    RankRecord& rank = out[r];
    values.give(fields_of(rank));
    rank.rank = static_cast<int>(r);
    rank.role = plan.ranks[r].role();
    rank.left = false;
    if (plan.mesh.pipeline == 1)
      rank.pipeline.reset();
    else
      rank.pipeline->stages.resize(1);
    if (rank.pipeline) rank.pipeline->stages[0].stage = static_cast<std::int64_t>(r) / 2;
  }
  return out;
}

RunRecord row_of(const KeptCase& one) {
  OtherValues values(one.flags);
  RunRecord row;
  row.plan = plan_of(one);
  row.ranks = ranks_of(row.plan, values);
  for (std::int64_t* value : {&row.parameters, &row.skipped_steps}) values.give({{"", value}});
  auto& ms = row.time_ms;
  for (double* value :
       {&row.samples_per_s, &row.tokens_per_s, &row.step_ms.median, &row.step_ms.p10,
        &row.step_ms.p90, &ms.compute, &ms.communication, &ms.exposed, &ms.optimizer, &ms.data,
        &ms.encoding, &ms.idle, &ms.serving_optimizer, &row.bytes_minimum_per_step})
    values.give({{"", value}});
  values.give({{"", &row.loss},
               {"", Structs(&row.evaluations)},
               {"", &row.parameter_hashes},
               {"", fields_of(row.at_end)},
               {"", &row.cores},
               {"", Structs(&row.staleness)},
               {"", &row.worker_steps},
               {"", Structs(&row.held_out_over_time)},
               {"", &row.lost_workers},
               {"", &row.slow_workers},
               {"", Structs(&row.restarts)},
               {"", Structs(&row.replay)},
               {"", Structs(&row.figures)},
               {"", Structs(&row.work)},
               {"", Structs(&row.measured_peak)},
               {"", Structs(&row.predicted)},
               {"", Structs(&row.bounds)},
               {"", Structs(&row.load)},
               {"", &row.attempt}});
  row.predicted->error.clear();  // there is a prediction
  row.replay->error.clear();
  return row;
}

class KeptRecords : public ::testing::TestWithParam<KeptCase> {
 protected:
  /// Everything that reports show.
  static std::string shown(const std::vector<RunRecord>& rows) {
    const std::vector<CaseSummary> cases = summarise(rows);
    std::string out = summary_text(cases) + simulated_text(cases) + remarks_text(cases);
    for (const SummaryTable& table : summary_tables(cases)) out += text_table(table.lines);
    for (const RunRecord& row : rows) out += row_text(row);
    return out + report_of({.folder = "results/trial",
                            .rows = rows,
                            .cases = cases,
                            .environment = nlohmann::json()})
                     .dump(1);
  }
};

TEST_P(KeptRecords, SayTheSameAsBefore) {
  const testing::TemporaryFolder temporary;
  const std::filesystem::path path = temporary.path() / "results";
  const RunRecord row = row_of(GetParam());
  const std::string before = shown({row});
  {
    ResultsFolder folder(path);
    folder.start({}, R"({"schema": 3, "runs": []})", "{}");
    folder.append(row);
    EXPECT_EQ(shown(folder.read_rows()), before) << "compare --resume";
  }
  const SavedResults saved = read_results(path);
  EXPECT_THAT(saved.complaints, ElementsAre());
  EXPECT_EQ(shown(saved.rows), before) << "report";
}

/// Else the test above would not see that a field is lost.
TEST_P(KeptRecords, DifferFromTheirDefaultsInEveryField) {
  const nlohmann::ordered_json kept = to_json(row_of(GetParam()));
  RunRecord plain;
  plain.plan = plan_of(GetParam());
  plain.ranks.resize(plain.plan.ranks.size());
  nlohmann::ordered_json defaults = to_json(plain);
  const nlohmann::ordered_json of_plan = to_json(plain.plan);
  const std::set<std::string> of_plan_too = {
      "schema", "status",       "error",       "disturbed",    "shared_device", "gpus",  "dtypes",
      "seed",   "global_batch", "micro_batch", "accumulation", "steps",         "warmup"};
  for (const auto& [key, value] : defaults.items()) {
    if (of_plan.contains(key) || of_plan_too.contains(key)) continue;
    EXPECT_NE(kept.at(key).dump(), value.dump()) << key << " has its default";
  }
}

INSTANTIATE_TEST_SUITE_P(Of, KeptRecords,
                         ::testing::Values(KeptCase{"pipeline", "ddp", 4, 2},
                                           KeptCase{"pipeline_flags", "ddp", 4, 2, true},
                                           KeptCase{"servers", "ps", 2},
                                           KeptCase{"servers_flags", "ps", 2, 1, true},
                                           KeptCase{"shards", "fsdp", 2}),
                         [](const auto& info) { return info.param.name; });

/// What began this test: the fewest bytes along the data dimension.
TEST(KeptRecordsTest, KeepTheFewestBytesOfEachDimension) {
  const std::vector<RunRecord> rows = {row_of({"pipeline", "ddp", 4, 2})};
  const auto pipelines = summarise(rows).at(0).pipeline;
  ASSERT_TRUE(pipelines.has_value());
  EXPECT_GT(pipelines->data.minimum, 1e6);
}

}  // namespace
}  // namespace ringside::runner
