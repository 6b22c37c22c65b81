#include "experiments/runner/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/models/llama.h"
#include "peer/schemes/ddp.h"
#include "ps/schemes/ps.h"
#include "tests/experiments/experiment_text.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Config : public testing::ExperimentText {
 protected:
  ExperimentConfig read(const std::string& text, const Texts& overrides = {}) {
    return ExperimentText::read(text, overrides).common;
  }
};

TEST_F(Config, ReadsEveryTable) {
  const auto config = read(R"(
name = "mine"
[model]
kind = "mlp"
layers = 2
[train]
steps = 7
timeout_s = 3
[optimizer]
lr = 1
schedule = "cosine"
[device]
threads = 2
[compare]
schemes = ["single", "ddp"]
worlds = [1, 4]
repeats = 5
[scheme.ddp]
bucket_mb = 2
)");
  EXPECT_EQ(config.name, "mine");
  EXPECT_EQ(config.model.kind, "mlp");
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_EQ(config.model.heads, ModelConfig{}.heads);
  EXPECT_EQ(config.train.steps, 7);
  EXPECT_EQ(config.train.timeout_s, 3.0);
  EXPECT_EQ(config.optimizer.lr, 1.0);
  EXPECT_EQ(config.optimizer.schedule, Schedule::cosine);
  EXPECT_EQ(config.device.threads, 2);
  EXPECT_THAT(config.compare.schemes, ElementsAre("single", "ddp"));
  EXPECT_THAT(config.compare.worlds, ElementsAre(1, 4));
  EXPECT_EQ(config.compare.repeats, 5);
  EXPECT_EQ(config.scheme_options.at("ddp").as<peer::DdpOptions>().bucket_mb, 2.0);
}

TEST_F(Config, ReadsTheProfileOfStagesAsATableAndKeyByKey) {
  const std::string text = "[pipeline]\nprofile = {f = 18.5, b = 18.1, w = 9.3, send = 0.6}\n";
  EXPECT_EQ(read(text).pipeline.profile, (StageProfile{18.5, 18.1, 9.3, 0.6}));
  EXPECT_EQ(read(text, {"pipeline.profile.w=9"}).pipeline.profile.w, 9);
  EXPECT_EQ(read("", {"pipeline.profile={f = 1, b = 2.5, w = 3}"}).pipeline.profile,
            (StageProfile{1, 2.5, 3, 0}));
  EXPECT_EQ(read(text, {"pipeline.profile={f = 1}"}).pipeline.profile,
            (StageProfile{1, 18.1, 9.3, 0.6}))
      << "each of its keys is given, and no other";
  EXPECT_THAT(complaint("", {"pipeline.profile={f = 1, g = 2}"}),
              HasSubstr("unknown key 'profile.g' in [pipeline]"));
  EXPECT_THAT(complaint("", {"pipeline.profile={f = -1}"}),
              HasSubstr("pipeline.profile.f = -1 must not be negative"));
  EXPECT_THAT(complaint("", {"pipeline.profile={}"}), HasSubstr("did you mean 'profile.f'?"));
  EXPECT_FALSE(read("").pipeline.has_profile());
  EXPECT_THROW(read(text, {"pipeline.profile.send=-1"}), Error);
  EXPECT_THROW(read(text, {"pipeline.profile.g=1"}), Error);
}

TEST_F(Config, APresetSetsTheModelAndKeysBesideItWin) {
  const auto config = read("[model]\nlayers = 3\npreset = 'gpt2-xl'\ncontext = 64\n");
  EXPECT_EQ(config.model.kind, "gpt");
  EXPECT_TRUE(config.model.tied);
  EXPECT_EQ(config.model.width, 1600);
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.context, 64);
  const auto overridden =
      read("[model]\nlayers = 3\n", {"model.preset=resnet-50", "model.classes=7"});
  EXPECT_EQ(overridden.model.kind, "resnet");
  EXPECT_EQ(overridden.model.layers, 50);
  EXPECT_EQ(overridden.model.classes, 7);
}

TEST_F(Config, RefusesAPresetThatThereIsNot) {
  EXPECT_THAT(complaint("[model]\n\npreset = 'gpt2-xxl'\n"),
              AllOf(HasSubstr("trial.toml:3"), HasSubstr("gpt2-xl")));
  EXPECT_THAT(complaint("[model]\npreset = 2\n"), HasSubstr("model.preset"));
  EXPECT_THAT(complaint("[model]\npresett = 'gpt2'\n"), HasSubstr("did you mean 'preset'"));
}

class ModelFrom : public Config {
 protected:
  ModelFrom() {
    std::filesystem::create_directory(folder_.path() / "weights");
    folder_.write("weights/config.json", R"({"model_type": "llama", "num_hidden_layers": 3,
        "num_attention_heads": 6, "num_key_value_heads": 2, "hidden_size": 48,
        "intermediate_size": 100, "rms_norm_eps": 1e-06, "rope_theta": 500000.0,
        "vocab_size": 99, "tie_word_embeddings": true})");
  }
  std::string file_ = folder_.path() / "weights/config.json";
};

TEST_F(ModelFrom, TakesTheModelOfAFolderOrFile) {
  for (const char* from : {"weights", "weights/", "weights/config.json"}) {
    const auto model =
        read(fmt::format("[model]\ncontext = 64\nfrom = '{}'\nheads = 6\n", from)).model;
    EXPECT_EQ(model.kind, "llama");
    EXPECT_EQ(model.layers, 3);
    EXPECT_EQ(model.heads, 6);
    EXPECT_EQ(model.own<LlamaOptions>().kv_heads, 2);
    EXPECT_EQ(model.width, 48);
    EXPECT_EQ(model.hidden, 100);
    EXPECT_EQ(model.epsilon, 1e-6);
    EXPECT_EQ(model.own<LlamaOptions>().rope_base, 500000);
    EXPECT_EQ(model.own<LlamaOptions>().rope_factor, 1);
    EXPECT_EQ(model.vocabulary, 99);
    EXPECT_TRUE(model.tied);
    EXPECT_EQ(model.activation, ModelActivation::silu);
    EXPECT_EQ(model.context, 64) << "not decided by the file";
  }
  const auto set = read("[model]\ncontext = 64\nheads = 9\n", {"model.from=" + file_}).model;
  EXPECT_EQ(set.heads, 6);
  EXPECT_EQ(set.context, 64);
}

TEST_F(ModelFrom, RefusesAKeyBesideItThatSaysOtherwise) {
  EXPECT_EQ(complaint("[model]\nfrom = 'weights'\n\nheads = 4\n"),
            fmt::format("{}:4: num_attention_heads = 6 in {}, heads = 4 here; leave model.heads "
                        "out, or model.from",
                        (folder_.path() / "trial.toml").string(), file_));
  const std::string from = "[model]\nfrom = 'weights'\n";
  EXPECT_THAT(complaint(from, {"model.epsilon=1e-5"}),
              AllOf(HasSubstr("--set model.epsilon=1e-5: rms_norm_eps = 1e-06 in "),
                    HasSubstr("epsilon = 1e-05 here")));
  EXPECT_THAT(complaint(from, {}, {"ddp: model.kind=gpt"}),
              HasSubstr("model_type = \"llama\" in " + file_ + ", kind = \"gpt\" here"));
  EXPECT_THAT(complaint(from + "[compare.sweep]\n'model.layers' = [3, 4]\n"),
              HasSubstr("num_hidden_layers = 3 in " + file_ + ", layers = 4 here"));
  EXPECT_EQ(read(from, {"model.preset=gpt2"}).model.heads, 12) << "the later one wins";
}

TEST_F(ModelFrom, RefusesAFileThatMakesNoModelWithItsPlace) {
  EXPECT_THAT(complaint("[model]\nfrom = 'nowhere'\n"),
              AllOf(HasSubstr("trial.toml:2: model.from: "), HasSubstr("nowhere cannot be read")));
  EXPECT_THAT(complaint("[model]\nfrom = 'weights'\npreset = 'gpt2'\n"),
              HasSubstr("model.preset is given beside model.from ("));
  folder_.write("weights/config.json", R"({"model_type": "llama", "attention_bias": true})");
  EXPECT_THAT(complaint("[model]\nfrom = 'weights'\n"),
              HasSubstr("trial.toml:2: " + file_ + ": attention_bias = true: model.kind 'llama' "));
}

TEST_F(Config, IsNamedAfterItsFileByDefault) { EXPECT_EQ(read("").name, "trial"); }

TEST_F(Config, RefusesAnUnknownKeyAndNamesTheNearest) {
  const auto what = complaint("[train]\nseed = 1\nsteeps = 3\n");
  EXPECT_THAT(what, HasSubstr("trial.toml:3: unknown key 'steeps' in [train]"));
  EXPECT_THAT(what, HasSubstr("did you mean 'steps'?"));
}

TEST_F(Config, RefusesAnUnknownTableAndNamesTheNearest) {
  EXPECT_THAT(complaint("[trian]\nsteps = 3\n"),
              HasSubstr("trial.toml:2: unknown table 'trian'; did you mean 'train'?"));
  EXPECT_THAT(complaint("\n[modle]\n"), HasSubstr("trial.toml:2: unknown table 'modle'"));
}

TEST_F(Config, RefusesAnUnknownKeyOutsideOfTables) {
  EXPECT_THAT(complaint("nam = \"x\"\n"),
              HasSubstr("trial.toml:1: unknown key 'nam'; did you mean 'name'?"));
  EXPECT_THAT(complaint("model = 3\n"), HasSubstr("'model' is a table"));
}

TEST_F(Config, RefusesATableBelowATable) {
  EXPECT_THAT(complaint("[model.deep]\nlayers = 3\n"),
              HasSubstr("unknown key 'deep.layers' in [model]"));
  EXPECT_THAT(complaint("[model.deep]\n"), HasSubstr("unknown table 'model.deep'"));
}

TEST_F(Config, RefusesWrongTypesAndSaysWhatIsWanted) {
  const auto what = complaint("[train]\nsteps = \"thirty\"\n");
  EXPECT_THAT(what, HasSubstr("trial.toml:2: train.steps must be an integer"));
  EXPECT_THAT(what, HasSubstr("thirty"));
  EXPECT_THAT(what, HasSubstr("is a string"));
  EXPECT_THAT(complaint("[train]\nsteps = 1.5\n"), HasSubstr("is a number with a fraction"));
  EXPECT_THAT(complaint("[optimizer]\nlr = true\n"),
              HasSubstr("optimizer.lr must be a finite number, but true is a boolean"));
  EXPECT_THAT(complaint("[optimizer]\nlr = nan\n"), HasSubstr("must be a finite number"));
  EXPECT_THAT(complaint("[compare]\nworlds = [1, \"2\"]\n"),
              HasSubstr("compare.worlds must be an integer or a list of integers"));
  EXPECT_THAT(complaint("[model]\nkind = 3\n"),
              HasSubstr("model.kind must be a string, but 3 is an integer"));
  EXPECT_THAT(complaint("[train]\nsteps = {a = 1}\n"), HasSubstr("unknown key 'steps.a'"));
}

TEST_F(Config, RefusesFormerNamesOfSchemesWithThePresentOnes) {
  const std::string present = "scheme 'averaging' is now called 'local_sgd'";
  EXPECT_THAT(complaint("[scheme.averaging]\nsync_every = 2\n"),
              HasSubstr("trial.toml:2: " + present));
  EXPECT_THAT(complaint("scheme.averaging.sync_every = 2\n"),
              HasSubstr("trial.toml:1: " + present));
  EXPECT_THAT(complaint("[[compare.case]]\nscheme = \"averaging\"\n"), HasSubstr(present));
}

TEST_F(Config, RefusesNumbersOutOfTheirRangesWithTheirPlace) {
  EXPECT_THAT(complaint("[device]\npeak_tflops = -1\n"),
              HasSubstr("trial.toml:2: device.peak_tflops = -1 must not be negative"));
  EXPECT_THAT(complaint("[scheme.local_sgd]\nsync_every = 0\n"),
              HasSubstr("trial.toml:2: scheme.local_sgd.sync_every = 0 must be more than 0"));
  EXPECT_THAT(complaint("[train]\nshares = [3, 0]\n"),
              HasSubstr("trial.toml:2: train.shares = 0 must be more than 0"));
}

/// Covers every key whose value is one of a few names.
TEST_F(Config, RefusesUnknownNamesOfValuesAndListsTheKnownOnes) {
  EXPECT_THAT(
      complaint("[train]\nprecision = \"fp8\"\n"),
      HasSubstr("trial.toml:2: train.precision = \"fp8\" is not known; choose fp32, bf16 or "
                "fp16"));
  EXPECT_THAT(complaint("[train]\nprecision = 16\n"),
              HasSubstr("train.precision must be fp32, bf16 or fp16, but 16 is an integer"));
  EXPECT_THAT(complaint("[train]\nrecompute = true\n"),
              HasSubstr("train.recompute must be none, attention or full, but true is a boolean"));
  EXPECT_THAT(complaint("", {"train.reduce=never"}), HasSubstr("choose auto, last or every"));
  EXPECT_THAT(complaint("", {"model.stem=mnist"}), HasSubstr("choose imagenet or cifar"));
  EXPECT_THAT(complaint("", {"optimizer.decay=some"}), HasSubstr("choose all or matrices"));
  EXPECT_THAT(complaint("", {"optimizer.schedule=stairs"}),
              HasSubstr("choose constant, linear, cosine or step"));
  EXPECT_THAT(complaint("", {"optimizer.lr_scaling=cubic"}),
              HasSubstr("choose none, sqrt or linear"));
  EXPECT_THAT(complaint("", {"scheme.ps.consistency=tso"}),
              HasSubstr("choose bsp, ssp, asp or easgd"));
  for (const std::string scheme : {"scheme.ps.", "scheme.dp."}) {
    EXPECT_THAT(
        complaint("", {scheme + "placement=near"}),
        HasSubstr(scheme +
                  "placement = \"near\" is not known; choose dedicated, colocated or mixed"));
    EXPECT_THAT(complaint("", {scheme + "server_device=gpu"}), HasSubstr("choose same or cpu"));
    EXPECT_THAT(complaint("", {scheme + "transport=udp"}),
                HasSubstr("choose auto, shm, tcp or ipc"));
  }
}

TEST_F(Config, RefusesUnknownSchemesAndOptions) {
  EXPECT_THAT(complaint("[scheme.ddpp]\nbucket_mb = 1\n"), HasSubstr("ddp"));
  EXPECT_THAT(complaint("[scheme.ddp]\nbucket = 1\n"),
              HasSubstr("unknown key 'bucket' in [scheme.ddp]; did you mean 'bucket_mb'?"));
  EXPECT_THAT(complaint("[scheme.ps]\nservers = \"two\"\n"),
              HasSubstr("scheme.ps.servers must be an integer"));
  EXPECT_THAT(complaint("[scheme]\nservers = 2\n"), HasSubstr("[scheme.NAME]"));
}

TEST_F(Config, SyntaxErrorsNameTheLine) {
  EXPECT_THAT(complaint("[train]\nsteps = = 3\n"), HasSubstr("trial.toml:2: "));
  EXPECT_THAT(complaint("[train]\nsteps = 3\nsteps = 4\n"), HasSubstr("trial.toml:3: "));
}

TEST_F(Config, RefusesWhatIsNoFile) {
  EXPECT_THROW(read_experiment(folder_.path() / "absent.toml", {}), Error);
  EXPECT_THROW(read_experiment(folder_.path(), {}), Error);
}

TEST_F(Config, OverridesWinOverTheFileAndOverEarlierOnes) {
  const auto config =
      read("[train]\nsteps = 3\n", {"train.steps=4", "train.steps=5", "model.kind=mlp",
                                    "optimizer.lr=1e-2", "compare.schemes=[\"ddp\", \"ps\"]",
                                    "compare.worlds=3", "scheme.ps.servers=4", "name=other"});
  EXPECT_EQ(config.train.steps, 5);
  EXPECT_EQ(config.model.kind, "mlp");
  EXPECT_EQ(config.optimizer.lr, 1e-2);
  EXPECT_THAT(config.compare.schemes, ElementsAre("ddp", "ps"));
  EXPECT_THAT(config.compare.worlds, ElementsAre(3));
  EXPECT_EQ(config.scheme_options.at("ps").as<ps::PsOptions>().servers, 4);
  EXPECT_EQ(config.name, "other");
}

TEST_F(Config, OverridesAreCheckedLikeTheFile) {
  EXPECT_THAT(complaint("", {"train.steeps=4"}),
              HasSubstr("--set train.steeps=4: unknown key 'steeps' in [train]; did you mean "
                        "'steps'?"));
  EXPECT_THAT(complaint("", {"train.steps=many"}),
              HasSubstr("--set train.steps=many: train.steps must be an integer"));
  EXPECT_THAT(complaint("", {"train.steps"}), HasSubstr("write table.key=value"));
  EXPECT_THAT(complaint("", {"=3"}), HasSubstr("write table.key=value"));
  EXPECT_THAT(complaint("", {"train.steps="}), HasSubstr("--set train.steps=: "));
  EXPECT_THAT(complaint("", {"train=3"}), HasSubstr("'train' is a table"));
  EXPECT_THAT(complaint("", {"trian.steps=3"}), HasSubstr("did you mean 'train'?"));
  EXPECT_THAT(complaint("", {"compare.schemes=[ddp]"}), HasSubstr("quote strings"));
  EXPECT_THAT(complaint("", {"train.steps=3\nname=\"x\""}), HasSubstr("train.steps must be"));
}

TEST_F(Config, PathsOfTheFileAreRelativeToItsFolder) {
  EXPECT_THAT(read("[data]\npath = \"a/../b.txt\"\n").data.path,
              ElementsAre((folder_.path() / "b.txt").string()));
  EXPECT_THAT(read("[data]\npath = [\"x\", \"/y\"]\n").data.path,
              ElementsAre((folder_.path() / "x").string(), "/y"));
}

TEST_F(Config, PathsOfOverridesAreRelativeToTheCurrentFolder) {
  EXPECT_THAT(read("[data]\npath = \"x\"\n", {"data.path=y.txt"}).data.path,
              ElementsAre((std::filesystem::current_path() / "y.txt").string()));
}

TEST_F(Config, ReadsTheClusterOfSimulatedDevices) {
  const std::string file = std::string(RINGSIDE_CLUSTERS) + "/dgx-a100.toml";
  const auto config = read("[device]\nkind = \"sim\"\ncluster = \"" + file +
                           "\"\n[sim]\nnumerics = true\nmessage_ranks = 2\n");
  ASSERT_TRUE(config.cluster);
  EXPECT_EQ(config.cluster->name, "dgx-a100");
  EXPECT_TRUE(config.sim.numerics);
  EXPECT_EQ(config.sim.message_ranks, 2);
  EXPECT_EQ(config.device.cluster, file);
  EXPECT_FALSE(read("").cluster);
}

TEST_F(Config, RefusesSimulatedDevicesWithoutACluster) {
  EXPECT_THAT(complaint("[device]\nkind = \"sim\"\n"),
              HasSubstr("trial.toml: device.kind = \"sim\" needs device.cluster"));
  EXPECT_THAT(complaint("[device]\nkind = \"sim\"\ncluster = \"absent.toml\"\n"),
              HasSubstr((folder_.path() / "absent.toml").string() + ": no such file"));
}

}  // namespace
}  // namespace ringside::runner
