// Cases and sweeps in experiment files and on the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "experiments/runner/config/cases.h"
#include "experiments/runner/plan/planner.h"
#include "ps/schemes/ps.h"
#include "tests/experiments/experiment_text.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class Cases : public testing::ExperimentText {
 protected:
  /// The configuration of a case without a sweep.
  static ExperimentConfig config_of(const Experiment& experiment, std::size_t number) {
    return bind_line(experiment.common, experiment.cases.at(number).set, {}, "here");
  }
};

TEST_F(Cases, OfAFileAreTables) {
  const Experiment experiment = read(R"(
[train]
micro_batch = 8
[[compare.case]]
scheme = "ps"
label = "one server"
worlds = [2, 4]
set = { "scheme.ps.servers" = 1, train.micro_batch = 2 }
[[compare.case]]
scheme = "ddp"
world = 3
[compare.case.set]
"train.initial_weights" = "weights.safetensors"
)");
  ASSERT_EQ(experiment.cases.size(), 2u);
  EXPECT_EQ(experiment.cases[0].scheme, "ps");
  EXPECT_EQ(experiment.cases[0].label, "one server");
  EXPECT_THAT(experiment.cases[0].worlds, ElementsAre(2, 4));
  const ExperimentConfig first = config_of(experiment, 0), second = config_of(experiment, 1);
  EXPECT_EQ(first.scheme_options.at("ps").as<ps::PsOptions>().servers, 1);
  EXPECT_EQ(first.train.micro_batch, 2);
  EXPECT_THAT(experiment.cases[1].worlds, ElementsAre(3));
  EXPECT_EQ(second.train.micro_batch, 8) << "the file's";
  EXPECT_EQ(second.train.initial_weights, (folder_.path() / "weights.safetensors").string());
  EXPECT_EQ(experiment.common.train.micro_batch, 8);
}

TEST_F(Cases, WinOverTheFileAndOverOverridesAndTheSweepWinsOverThem) {
  const Experiment experiment = read(R"(
[train]
steps = 30
[compare.sweep]
"train.steps" = [60, 70]
[[compare.case]]
scheme = "ddp"
set = { "train.steps" = 50 }
)",
                                     {"train.steps=40"});
  EXPECT_EQ(experiment.common.train.steps, 40);
  EXPECT_EQ(config_of(experiment, 0).train.steps, 50);
  const auto points = points_of(experiment.sweep, "ddp");
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(bind_line(experiment.common, experiment.cases[0].set, points[1], "here").train.steps,
            70);
}

TEST_F(Cases, APresetOfACaseSetsTheModelAndKeysBesideItWin) {
  const Experiment experiment = read(R"(
[model]
layers = 3
[[compare.case]]
scheme = "ddp"
set = { "model.context" = 64, "model.preset" = "gpt2-xl" }
)");
  const ModelConfig model = config_of(experiment, 0).model;
  EXPECT_EQ(model.width, 1600);
  EXPECT_EQ(model.context, 64);
  EXPECT_EQ(experiment.common.model.layers, 3);
}

TEST_F(Cases, OfTheCommandLineAreAddedToThoseOfTheFile) {
  const Experiment experiment =
      read("[[compare.case]]\nscheme = \"dp\"\n", {},
           {"ps: scheme.ps.servers=1, train.micro_batch = 2, label=one server, worlds=[1, 2]",
            "ddp", "fsdp: label=\"a, b\", world=4, data.path=[\"x\", \"/y\"]"});
  ASSERT_EQ(experiment.cases.size(), 4u);
  const CaseConfig& one = experiment.cases[1];
  EXPECT_EQ(one.scheme, "ps");
  EXPECT_EQ(one.label, "one server");
  EXPECT_THAT(one.worlds, ElementsAre(1, 2));
  EXPECT_EQ(config_of(experiment, 1).train.micro_batch, 2);
  EXPECT_THAT(experiment.cases[2].set, IsEmpty());
  EXPECT_EQ(experiment.cases[3].label, "a, b");
  EXPECT_THAT(config_of(experiment, 3).data.path,
              ElementsAre((std::filesystem::current_path() / "x").string(), "/y"));
}

TEST_F(Cases, LeaveSchemesOutThatAreNotAskedFor) {
  const std::string one = "[[compare.case]]\nscheme = \"dp\"\n";
  EXPECT_THAT(read(one).common.compare.schemes, IsEmpty());
  EXPECT_THAT(read("", {}, {"ddp"}).common.compare.schemes, IsEmpty());
  EXPECT_THAT(read("[compare]\nschemes = [\"single\"]\n" + one).common.compare.schemes,
              ElementsAre("single"));
  EXPECT_THAT(read(one, {"compare.schemes=ps"}).common.compare.schemes, ElementsAre("ps"));
  EXPECT_EQ(read("").common.compare.schemes.size(), 5u);
}

TEST_F(Cases, AreLimitedToTheSchemesAndWorldsOfTheCommandLine) {
  const auto limited = [&](const Texts& schemes, const std::vector<std::int64_t>& worlds) {
    Experiment out = read(R"(
[compare]
schemes = ["single"]
worlds = [3]
[[compare.case]]
scheme = "ps"
world = 4
[[compare.case]]
scheme = "ddp"
[[compare.case]]
scheme = "ps"
label = "mine"
worlds = [1, 2]
)");
    limit_to(out, schemes, worlds);
    return out;
  };
  const Experiment all = limited({}, {});
  EXPECT_EQ(all.cases.size(), 3u);
  EXPECT_THAT(all.cases[0].worlds, ElementsAre(4));
  EXPECT_THAT(all.common.compare.worlds, ElementsAre(3));
  const Experiment some = limited({"ps", "fsdp"}, {});
  EXPECT_THAT(some.common.compare.schemes, ElementsAre("ps", "fsdp"));
  ASSERT_EQ(some.cases.size(), 2u) << "ddp is left out";
  EXPECT_EQ(some.cases[1].label, "mine");
  EXPECT_THAT(some.cases[1].worlds, ElementsAre(1, 2));
  const Experiment small = limited({}, {2});
  EXPECT_THAT(small.common.compare.worlds, ElementsAre(2));
  for (const CaseConfig& one : small.cases) EXPECT_THAT(one.worlds, IsEmpty()) << one.place;
}

TEST_F(Cases, OfTheCommandLineHaveNoWorldsBesideThoseOfAll) {
  Experiment experiment = read("", {}, {"ddp", "ps: world=4"});
  EXPECT_THAT(testing::complaint([&] { limit_to(experiment, {}, {2}); }),
              StartsWith("--case ps: world=4: it has worlds of its own, but --worlds"));
  EXPECT_THAT(testing::complaint([&] { limit_to(experiment, {"ddp"}, {}); }),
              StartsWith("--case ps: world=4: --schemes leaves scheme ps out"));
}

TEST_F(Cases, OfAQuickComparisonAreRunOnce) {
  Experiment experiment = read("[compare]\nrepeats = 7\nattempts = 4\n");
  make_quick(experiment);
  const CompareConfig& compare = experiment.common.compare;
  EXPECT_EQ(compare.repeats, 1);
  EXPECT_EQ(compare.attempts, 1);
  EXPECT_FALSE(compare.all_cores);
  EXPECT_TRUE(plan_comparison(experiment, 2, {}).at(0).listing.quick);
}

TEST_F(Cases, ThatAreWrongAreNamedByTheirLine) {
  const auto wrong = [&](const std::string& lines) {
    return complaint("[[compare.case]]\nscheme = \"ps\"\n" + lines);
  };
  EXPECT_THAT(wrong("set = { \"train.steeps\" = 1 }\n"),
              HasSubstr("trial.toml:3: unknown key 'steeps' in [train]; did you mean 'steps'?"));
  EXPECT_THAT(wrong("set = { \"scheme.ps.server\" = 1 }\n"), HasSubstr("did you mean 'servers'?"));
  EXPECT_THAT(wrong("[compare.case.set]\n\n\"train.steps\" = \"many\"\n"),
              HasSubstr("trial.toml:5: train.steps must be an integer"));
  EXPECT_THAT(wrong("set = { \"compare.repeats\" = 1 }\n"),
              HasSubstr("trial.toml:3: set cannot set compare.repeats, which holds for the whole"));
  EXPECT_THAT(wrong("set = { name = \"x\" }\n"), HasSubstr("set cannot set name"));
  EXPECT_THAT(wrong("set = 3\n"), HasSubstr("trial.toml:3: set has a value without a key"));
  EXPECT_THAT(wrong("labels = \"x\"\n"),
              HasSubstr("trial.toml:3: unknown key 'labels' in [[compare.case]]; did you mean "
                        "'label'?"));
  EXPECT_THAT(wrong("label = \"a|b\"\n"), HasSubstr("does not fit into a table"));
  const auto umlauts = [](int count) {
    std::string text = "label = \"";
    for (int i = 0; i < count; ++i) text += "\u00fc";  // a character of two bytes
    return text + "\"\n";
  };
  EXPECT_THAT(wrong(umlauts(81)), HasSubstr("use at most 80 characters"));
  EXPECT_EQ(wrong(umlauts(80)), "nothing");
  EXPECT_THAT(wrong("world = 2\nworlds = [2]\n"), HasSubstr("leave one out"));
  EXPECT_THAT(wrong("world = \"two\"\n"), HasSubstr("trial.toml:3: world must be an integer"));
  EXPECT_THAT(complaint("\n[[compare.case]]\nscheme = \"dpp\"\n"),
              AllOf(HasSubstr("trial.toml:2: "), HasSubstr("did you mean 'dp'?")));
  EXPECT_THAT(complaint("[[compare.case]]\nworld = 2\n"), HasSubstr("a case needs a scheme"));
  EXPECT_THAT(complaint("[compare.case]\nscheme = \"ps\"\n"), HasSubstr("with two brackets"));
  EXPECT_THAT(complaint("[compare]\ncase = 3\n"), HasSubstr("with two brackets"));
  EXPECT_EQ(wrong("set = {}\n"), "nothing");
}

TEST_F(Cases, OfTheCommandLineThatAreWrongAreNamed) {
  const auto wrong = [&](const std::string& text) { return complaint("", {}, {text}); };
  EXPECT_THAT(wrong("scheme.ps.servers=1"), HasSubstr("write SCHEME: KEY=VALUE"));
  EXPECT_THAT(wrong("dpp: train.steps=7"), HasSubstr("did you mean 'dp'?"));
  EXPECT_THAT(wrong("ps: servers=1"),
              AllOf(HasSubstr("--case ps: servers=1: unknown key 'servers'"),
                    HasSubstr("such as scheme.ps.servers")));
  EXPECT_THAT(wrong("ps: train.steps=1, train.steps=2"), HasSubstr("train.steps is given twice"));
  EXPECT_THAT(wrong("ps: label=a, label=b"), HasSubstr("label is given twice"));
  EXPECT_THAT(wrong("ps: train.steps"), HasSubstr("write table.key=value"));
  EXPECT_THAT(wrong("ps: compare.repeats=1"), HasSubstr("a case cannot set compare.repeats"));
  EXPECT_THAT(wrong("ps: scheme.ddp.bucket_mb=1"),
              HasSubstr("scheme.ddp.bucket_mb is no option of the case's scheme ps; leave it out"));
  EXPECT_THAT(complaint("", {"compare.case=[]"}), HasSubstr("write --case"));
}

TEST_F(Cases, ASweepIsTheProductOfItsLists) {
  const Experiment experiment = read(R"(
[compare.sweep]
"train.precision" = ["fp32", "bf16"]
scheme.ddp.bucket_mb = [1, 5, 25]
)");
  EXPECT_EQ(count_points(experiment.sweep, "ddp", 100), 6);
  EXPECT_EQ(count_points(experiment.sweep, "ddp", 3), 4) << "more than the limit";
  EXPECT_EQ(count_points(experiment.sweep, "ps", 100), 2) << "ps has no buckets";
  const auto points = points_of(experiment.sweep, "ddp");
  ASSERT_EQ(points.size(), 6u);
  const ExperimentConfig last = bind_line(experiment.common, {}, points[5], "here");
  EXPECT_EQ(last.train.precision, Precision::bf16);
  EXPECT_EQ(points_of({}, "ps").size(), 1u);
}

TEST_F(Cases, ASweepOfTheCommandLineReplacesThatOfTheFile) {
  const Experiment experiment = read(
      "[compare.sweep]\n\"train.micro_batch\" = [1, 2]\n",
      {"compare.sweep.train.micro_batch=[4, 8, 16]", "compare.sweep.\"scheme.ps.servers\"=[1, 2]"});
  ASSERT_EQ(experiment.sweep.size(), 2u);
  EXPECT_EQ(experiment.sweep[0].values.size(), 3u);
  EXPECT_EQ(experiment.sweep[1].key, "scheme.ps.servers");
}

TEST_F(Cases, AListOfWorldsInASweepIsThatOfTheComparison) {
  EXPECT_THAT(read("[compare.sweep]\nworld = [2, 8]\n").common.compare.worlds, ElementsAre(2, 8));
  EXPECT_THAT(complaint("[compare.sweep]\n\"compare.worlds\" = [2, 8]\n"),
              HasSubstr("trial.toml:2: a sweep over worlds is the key compare.worlds"));
}

TEST_F(Cases, AListOfWorldsInASweepStandsBesideNoOther) {
  const std::string swept = "[compare.sweep]\nworld = [4, 8]\n",
                    plain = "[compare]\nworlds = [2]\n";
  EXPECT_THAT(
      complaint(plain + swept),
      AllOf(HasSubstr("trial.toml:2: compare.worlds is given beside world in compare.sweep "),
            HasSubstr("trial.toml:4); leave one out")));
  EXPECT_THAT(complaint("", {"compare.worlds=[2]", "compare.sweep.world=[4]"}),
              HasSubstr("--set compare.worlds=[2]: compare.worlds is given beside world"));
  EXPECT_THAT(read(swept, {"compare.worlds=[2]"}).common.compare.worlds, ElementsAre(2))
      << "--set wins over the file";
  EXPECT_THAT(read(plain, {"compare.sweep.world=[4]"}).common.compare.worlds, ElementsAre(4));
}

TEST_F(Cases, ASweepThatIsWrongIsNamedByItsLine) {
  const auto wrong = [&](const std::string& line) { return complaint("[compare.sweep]\n" + line); };
  EXPECT_THAT(wrong("\"train.steeps\" = [1]\n"),
              HasSubstr("trial.toml:2: unknown key 'steeps' in [train]; did you mean 'steps'?"));
  EXPECT_THAT(wrong("\"train.steps\" = [10, \"x\"]\n"),
              HasSubstr("trial.toml:2: train.steps must"));
  EXPECT_THAT(wrong("\"train.steps\" = []\n"), HasSubstr("trial.toml:2: compare.sweep: train.steps "
                                                         "is an empty list"));
  EXPECT_THAT(wrong("\"train.steps\" = 3\n"), HasSubstr("needs a list of values"));
  EXPECT_THAT(wrong("\"train.steps\" = [7, 8, 7]\n"), HasSubstr("lists 7 twice"));
  EXPECT_THAT(wrong("\"compare.repeats\" = [1, 2]\n"), HasSubstr("cannot set compare.repeats"));
  EXPECT_THAT(wrong("name = [\"a\"]\n"), HasSubstr("cannot set name"));
  EXPECT_THAT(wrong("\"scheme.pss.servers\" = [1]\n"), HasSubstr("did you mean 'ps'?"));
  EXPECT_THAT(complaint("[compare]\nsweep = 3\n"), HasSubstr("compare.sweep is a table"));
  EXPECT_EQ(wrong(""), "nothing");
}

TEST_F(Cases, LinesMayNameTheirOwnClusters) {
  const std::string clusters = RINGSIDE_CLUSTERS;
  const Experiment swept =
      read("[device]\nkind = \"sim\"\n[compare.sweep]\n\"device.cluster\" = [\"" + clusters +
           "/dgx-a100.toml\", \"" + clusters + "/dgx-1-v100.toml\"]\n");
  EXPECT_FALSE(swept.common.cluster);
  const auto points = points_of(swept.sweep, "ddp");
  EXPECT_EQ(bind_line(swept.common, {}, points.at(1), "here").cluster->name, "dgx-1-v100");
  const Experiment one =
      read("", {},
           {"ddp: device.kind=sim, device.cluster=" + clusters + "/dgx-a100.toml",
            "ps: device.kind=sim"});
  EXPECT_EQ(config_of(one, 0).cluster->name, "dgx-a100");
  EXPECT_THAT(testing::complaint([&] { config_of(one, 1); }),
              HasSubstr("here: device.kind = \"sim\" needs device.cluster"));
}

TEST_F(Cases, ABatchForEachRankTakesThePlaceOfTheGlobalBatch) {
  EXPECT_THAT(complaint("[train]\nglobal_batch = 8\n\nbatch_per_rank = 4\n"),
              HasSubstr("trial.toml:4: train.batch_per_rank = 4 decides the global batch, and"));
  EXPECT_EQ(
      read("[train]\nglobal_batch = 8\n", {"train.batch_per_rank=4"}).common.train.batch_per_rank,
      4);
  EXPECT_EQ(
      read("[train]\nbatch_per_rank = 4\n", {"train.global_batch=8"}).common.train.batch_per_rank,
      0);
  EXPECT_EQ(read("[train]\nglobal_batch = 8\nbatch_per_rank = 0\n").common.train.global_batch, 8);
}

TEST_F(Cases, ATargetIsANumberOrTheReference) {
  const auto target = [&](const std::string& text) {
    return read("", {"compare.target_loss=" + text}).common.compare;
  };
  EXPECT_EQ(target("2").target_kind, TargetKind::number);
  EXPECT_EQ(target("2.5").target_loss, 2.5);
  EXPECT_EQ(target("single").target_kind, TargetKind::single);
  EXPECT_EQ(target("none").target_kind, TargetKind::none);
  EXPECT_EQ(read("").common.compare.target_kind, TargetKind::none);
  for (const char* wrong : {"number", "ddp", "true", "nan"})
    EXPECT_THAT(complaint("", {std::string("compare.target_loss=") + wrong}),
                HasSubstr("compare.target_loss must be a finite number or \"none\" or \"single\""))
        << wrong;
}

}  // namespace
}  // namespace ringside::runner
