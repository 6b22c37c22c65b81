// The real program. For wrong input it prints one line, ends with exit status 2 and writes no file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/plan/train_config.h"
#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;

using ::testing::AllOf;
using ::testing::HasSubstr;

class CommandLineTest : public ProgramTest {
 protected:
  CommandLineTest() {
    folder_.write("empty.txt", "");
    small_gpt(8, 16, R"(steps = 3
warmup = 1
global_batch = 4
micro_batch = 2
[compare]
schemes = ["single", "ddp"]
worlds = [1, 2]
repeats = 1
attempts = 1        # other work on this machine changes nothing here
all_cores = false   # nor do its cores
)");
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path()))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  /// Runs the program with arguments that it must refuse; returns the line that it prints.
  std::string refusal(const std::vector<std::string>& arguments) {
    const auto before = files();
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(ended.err.rfind("ringside: ", 0), 0u) << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_EQ(files(), before);
    return ended.err;
  }
  std::string refusal_of(const std::string& override_text) {
    return refusal({"compare", "trial.toml", "--set", override_text});
  }
};

TEST_F(CommandLineTest, RefusesUnknownNames) {
  EXPECT_THAT(refusal_of("train.steeps=3"), HasSubstr("did you mean 'steps'?"));
  EXPECT_THAT(refusal_of("train.steps=many"), HasSubstr("train.steps must be an integer"));
  EXPECT_THAT(refusal_of("model.kind=gtp"), HasSubstr("did you mean 'gpt'?"));
  EXPECT_THAT(refusal_of("optimizer.kind=adam"), HasSubstr("adam"));
  EXPECT_THAT(refusal({"compare", "trial.toml", "--schemes", "single,dpp"}),
              HasSubstr("did you mean 'dp'?"));
  EXPECT_THAT(refusal({"compare", "trial.toml", "--schemes", "DDP"}),
              HasSubstr("did you mean 'ddp'?"));
}

TEST_F(CommandLineTest, RefusesOptionsWithoutAText) {
  EXPECT_THAT(refusal({"compare", "trial.toml", "--results", ""}),
              HasSubstr("--results: the text is empty; give DIR, or leave the option out"));
  EXPECT_THAT(refusal({"train", "trial.toml", "--scheme", "single", "--output="}),
              HasSubstr("--output: 1 required FILE missing"));
  EXPECT_THAT(refusal({"calibrate", "--results", ""}), HasSubstr("--results: the text is empty"));
}

TEST_F(CommandLineTest, RefusesWhatIsWrongInTheFile) {
  experiment("[train]\nstep = 3\n");
  EXPECT_THAT(refusal({"compare", "trial.toml"}), HasSubstr("trial.toml:2: unknown key 'step'"));
  experiment("[train\n");
  EXPECT_THAT(refusal({"compare", "trial.toml"}), HasSubstr("trial.toml:1: "));
  EXPECT_THAT(refusal({"compare", "absent.toml"}), HasSubstr("absent.toml: no such file"));
  EXPECT_THAT(refusal({"compare", "."}), HasSubstr("not a file"));
}

TEST_F(CommandLineTest, RefusesWorldsAndBatchesThatCannotBe) {
  EXPECT_THAT(refusal({"compare", "trial.toml", "--worlds", "0"}), HasSubstr("world = 0"));
  EXPECT_THAT(refusal({"compare", "trial.toml", "--worlds", "3"}),
              HasSubstr("train.global_batch = 4 is not divisible by world 3"));
  EXPECT_THAT(refusal({"compare", "trial.toml", "--worlds", "two"}), HasSubstr("two"));
  EXPECT_THAT(refusal_of("model.heads=3"), HasSubstr("heads"));
}

TEST_F(CommandLineTest, RefusesDataThatIsNotThere) {
  EXPECT_THAT(refusal_of("data.path=absent.txt"), HasSubstr("absent.txt"));
  EXPECT_THAT(refusal_of("data.path=empty.txt"), HasSubstr("empty.txt"));
  EXPECT_THAT(refusal_of("model.context=100000"), HasSubstr("model.context"));
}

TEST_F(CommandLineTest, RefusesSizesThatOverflow) {
  EXPECT_THAT(refusal_of("model.vocabulary=288230376151711744"),
              HasSubstr("model.vocabulary = 288230376151711744 is too large"));
  EXPECT_THAT(refusal_of("model.layers=1000000000"), HasSubstr("model.layers"));
  EXPECT_THAT(refusal_of("model.positions=1152921504606846976"), HasSubstr("model.positions"));
  EXPECT_THAT(refusal_of("model.dropout=0.99999999"), HasSubstr("model.dropout"));
  EXPECT_THAT(refusal({"calibrate", "--threads", "99999"}),
              HasSubstr("--threads 99999 must lie between 1 and 1024"));
}

TEST_F(CommandLineTest, RefusesPipesWithoutWaiting) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const char* kind : {"text", "tokens"})
    EXPECT_THAT(refusal({"compare", "trial.toml", "--set", "data.path=pipe", "--set",
                         std::string("data.kind=") + kind}),
                HasSubstr("pipe"));
  EXPECT_THAT(refusal_of("train.initial_weights=pipe"), HasSubstr("it is a pipe or a device"));
}

TEST_F(CommandLineTest, RefusesPathsThatAreNotUtf8) {
  folder_.write("caf\xe9.txt", folder_.read("text.txt"));
  EXPECT_THAT(refusal_of("data.path=caf\xe9.txt"), HasSubstr("caf\\xE9.txt is not UTF-8"));
  EXPECT_THAT(
      refusal({"train", "trial.toml", "--scheme", "single", "--save", "caf\xe9.safetensors"}),
      HasSubstr("is not UTF-8"));
}

TEST_F(CommandLineTest, AFolderMayHoldNamesThatAreNotUtf8) {
  std::filesystem::create_directory(path("folder"));
  folder_.write("folder/caf\xe9.txt", folder_.read("text.txt"));
  setenv("OMP_AFFINITY_FORMAT", "caf\xe9", 1);
  const std::vector<std::string> compare = {"compare", "trial.toml", "--schemes",
                                            "single",  "--set",      "data.path=folder"};
  const Ended first = run(compare);
  auto again = compare;
  again.push_back("--resume");
  const Ended second = run(again);
  unsetenv("OMP_AFFINITY_FORMAT");
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("1 of 1 run has been made already"));
  EXPECT_THAT(folder_.read("results/trial/plan.json"), HasSubstr("caf\\\\xE9.txt"));
  EXPECT_THAT(folder_.read("results/trial/environment.json"), HasSubstr("caf\\\\xE9"));
}

TEST_F(CommandLineTest, RefusesAResultsFolderThatCannotBe) {
  EXPECT_THAT(refusal({"compare", "trial.toml", "--results", "text.txt"}),
              HasSubstr("results folder text.txt/trial"));
}

TEST_F(CommandLineTest, RefusesResultsThatRunsWouldRead) {
  const auto compare = [](const std::string& results) {
    return std::vector<std::string>{"compare",   "trial.toml", "--set",     "data.path=.",
                                    "--results", results,      "--schemes", "single"};
  };
  EXPECT_THAT(refusal(compare("out")), HasSubstr("out/trial lies below data.path"));
  EXPECT_THAT(refusal(compare(".")), HasSubstr("lies below data.path"));
  EXPECT_EQ(run(compare("results")).status, 0);  // text data leaves out folders of this name
}

TEST_F(CommandLineTest, RefusesUnknownCommandsAndOptions) {
  EXPECT_THAT(refusal({}), HasSubstr("ringside --help"));
  EXPECT_THAT(refusal({"compete"}), HasSubstr("ringside --help"));
  EXPECT_THAT(refusal({"compare"}), HasSubstr("FILE"));
  EXPECT_THAT(refusal({"compare", "trial.toml", "--fast"}), HasSubstr("--fast"));
  EXPECT_THAT(refusal({"train", "trial.toml"}), HasSubstr("--scheme"));
  EXPECT_THAT(refusal({"train", "trial.toml", "--scheme", "single", "--world", "2"}),
              HasSubstr("world 1"));
  EXPECT_THAT(refusal({"rank", "77"}), HasSubstr("77"));
}

TEST_F(CommandLineTest, HelpsANewcomer) {
  const Ended help = run({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"compare", "train", "list", "experiments/quickstart.toml"})
    EXPECT_THAT(help.out, HasSubstr(word));
  const Ended compare = run({"compare", "--help"});
  EXPECT_EQ(compare.status, 0);
  for (const char* word :
       {"FILE", "--set", "--case", "--schemes", "--worlds", "--resume", "--results"})
    EXPECT_THAT(compare.out, HasSubstr(word));
  EXPECT_THAT(run({"--version"}).out, HasSubstr("ringside 0."));
}

TEST_F(CommandLineTest, ListsWhatThisBuildHas) {
  const Ended list = run({"list"});
  EXPECT_EQ(list.status, 0);
  for (const char* word :
       {"single", "dp", "ps", "ddp", "fsdp", "bucket_mb = 25", "gpt", "mlp", "text", "cpu",
        "train.steps = 30", "data.holdout = 0.1", "[[compare.case]]", "compare.case.set",
        "compare.sweep", "pytorch", "compare.target_loss = \"none\"", "compare.seeds = []"})
    EXPECT_THAT(list.out, HasSubstr(word));
}

TEST_F(CommandLineTest, ListsOnePartOfIt) {
  const Ended models = run({"list", "models"});
  EXPECT_EQ(models.status, 0);
  for (const char* word :
       {"resnet", "vgg", "bert", "25,557,032", "138,357,544", "61,100,840", "23,834,568",
        "124,439,808", "335,141,888 without", "336,226,108", "174,604,259,328"})
    EXPECT_THAT(models.out, HasSubstr(word));
  EXPECT_THAT(models.out, Not(HasSubstr("train.steps")));
  const Ended wrong = run({"list", "model"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'models'?"));
}

TEST_F(CommandLineTest, TheDoctorNamesWhatIsThereAndWhatToInstall) {
  const Ended doctor = run({"doctor"});
  EXPECT_EQ(doctor.status, 0);
  for (const char* word : {"cpu", "cuda", "nccl", "gloo", "openmpi", "mpich", "sim", "usable"})
    EXPECT_THAT(doctor.out, HasSubstr(word));
  const auto gpus = doctor.out.find("cuda       NOT usable: ");
  if (gpus == std::string::npos) GTEST_SKIP() << "there is a GPU here";
  const Ended compare = run({"compare", "trial.toml", "--set", "device.kind=cuda"});
  EXPECT_EQ(compare.status, 2);
  // The same cause, and what to do about it.
  const auto cause = doctor.out.substr(gpus + 23, 40);
  EXPECT_THAT(compare.err, HasSubstr("device.kind = 'cuda': " + cause));
}

TEST_F(CommandLineTest, ComparesAndResumes) {
  const Ended first = run({"compare", "trial.toml"});
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("bit-identical"));
  for (const char* name :
       {"plan.json", "environment.json", "rows.jsonl", "summary.json", "summary.md"})
    EXPECT_TRUE(std::filesystem::exists(path("results/trial") / name)) << name;
  const std::string rows = folder_.read("results/trial/rows.jsonl");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 3);

  // Cuts the last row short, as if the program had been killed while it wrote the row.
  const auto last = rows.rfind('\n', rows.size() - 2) + 1;
  folder_.write("results/trial/rows.jsonl", rows.substr(0, last + 20));
  const Ended second = run({"compare", "trial.toml", "--resume"});
  EXPECT_EQ(second.status, 0) << second.err;
  const auto made_last = nlohmann::json::parse(rows.substr(last));  // the order is shuffled
  EXPECT_THAT(second.err, HasSubstr("[3/3] " + made_last.at("label").get<std::string>() +
                                    " world " + made_last.at("world").dump()));
  const std::string again = folder_.read("results/trial/rows.jsonl");
  EXPECT_EQ(again.substr(0, last), rows.substr(0, last));
  EXPECT_EQ(std::count(again.begin(), again.end(), '\n'), 3);

  const std::string environment = folder_.read("results/trial/environment.json");
  auto elsewhere = nlohmann::json::parse(environment);
  elsewhere["cores"] = 1000;
  folder_.write("results/trial/environment.json", elsewhere.dump());
  EXPECT_THAT(refusal({"compare", "trial.toml", "--resume"}),
              HasSubstr("cores = 1000, but now it is "));
  EXPECT_THAT(refusal({"compare", "trial.toml", "--mixed"}),
              HasSubstr("--mixed requires --resume"));
  const Ended mixed = run({"compare", "trial.toml", "--resume", "--mixed"});
  EXPECT_EQ(mixed.status, 0) << mixed.err;
  EXPECT_THAT(mixed.err,
              HasSubstr("3 rows were made in another environment: cores was 1000, now "));
  const auto both = nlohmann::json::parse(folder_.read("results/trial/environment.json"));
  EXPECT_EQ(both.at("cores"), nlohmann::json::parse(environment).at("cores"));
  EXPECT_EQ(both.at("earlier").at(0).at("environment"), elsewhere);
  EXPECT_EQ(both.at("earlier").at(0).at("rows").size(), 3u);
  folder_.write("results/trial/environment.json", environment);
  auto older = nlohmann::json::parse(rows.substr(0, rows.find('\n')));
  older["schema"] = 2;
  folder_.write("results/trial/rows.jsonl", older.dump() + "\n");
  EXPECT_THAT(refusal({"compare", "trial.toml", "--resume"}),
              AllOf(HasSubstr("results/trial/rows.jsonl:1"), HasSubstr("schema 2"),
                    HasSubstr("leave --resume out to start anew")));
  folder_.write("results/trial/rows.jsonl", rows);
  EXPECT_THAT(refusal({"compare", "trial.toml", "--resume", "--set", "train.steps=4"}),
              HasSubstr("train.steps = 3, not 4"));
  folder_.write("text.txt", folder_.read("text.txt") + "More.");
  EXPECT_THAT(refusal({"compare", "trial.toml", "--resume"}), HasSubstr("text.txt has changed"));
}

TEST_F(CommandLineTest, ARunWhoseTraceIsNotThereIsMadeAgain) {
  const std::filesystem::path traces = path("results/trial/traces");
  ASSERT_EQ(run({"compare", "trial.toml"}).status, 0);
  const std::string rows = folder_.read("results/trial/rows.jsonl");
  const std::string all_but_last = rows.substr(0, rows.rfind('\n', rows.size() - 2) + 1);
  const auto last = nlohmann::json::parse(rows.substr(all_but_last.size()));
  folder_.write("results/trial/rows.jsonl", all_but_last);
  std::filesystem::remove_all(traces);
  folder_.write("results/trial/traces", "in the way");
  EXPECT_EQ(run({"compare", "trial.toml", "--resume"}).status, 1);
  EXPECT_EQ(folder_.read("results/trial/rows.jsonl"), all_but_last);
  std::filesystem::remove(traces);
  EXPECT_EQ(run({"compare", "trial.toml", "--resume"}).status, 0);
  EXPECT_TRUE(std::filesystem::exists(traces / (last.at("run").get<std::string>() + ".json")));
}

TEST_F(CommandLineTest, EverySchemeIsTheSameRun) {
  const Ended ended = run({"compare", "trial.toml", "--schemes", "single,dp,ps,ddp,fsdp"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  const auto summary = nlohmann::json::parse(folder_.read("results/trial/summary.json"));
  ASSERT_EQ(summary.at("cases").size(), 9u);  // single at world 1, the others at 1 and 2
  for (const auto& one : summary.at("cases"))
    EXPECT_EQ(one.at("proof"),
              one.at("scheme") == "single" ? "reference" : "bit-identical to single")
        << one;
}

TEST_F(CommandLineTest, SingleOnAllCoresIsTheSameRunToo) {
  const Ended ended = run({"compare", "trial.toml", "--set", "compare.all_cores=true"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  const auto summary = nlohmann::json::parse(folder_.read("results/trial/summary.json"));
  if (summary.at("cases").size() == 3) GTEST_SKIP() << "this machine has one core";
  ASSERT_EQ(summary.at("cases").size(), 4u);
  const auto& all_cores = summary["cases"][1];
  EXPECT_EQ(all_cores.at("label"), "single (2 threads)");
  EXPECT_THAT(all_cores.at("proof").get<std::string>(),
              ::testing::AnyOf("bit-identical to single", "to rounding"));
  EXPECT_GT(all_cores.at("cores").get<double>(), 0);
  EXPECT_THAT(ended.out, HasSubstr("| vs all cores |"));
}

/// A port of this machine on which no other process can listen.
class TakenPort {
 public:
  TakenPort() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (bind(socket_, any, size) == 0 && listen(socket_, 1) == 0 &&
        getsockname(socket_, any, &size) == 0)
      number_ = ntohs(address.sin_port);
  }
  ~TakenPort() { close(socket_); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  int number() const { return number_; }

 private:
  int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int number_ = 0;
};

TEST_F(CommandLineTest, APortThatIsTakenIsNamedSoon) {
  const TakenPort port;
  ASSERT_GT(port.number(), 0);
  const std::string number = std::to_string(port.number());
  for (const auto& [scheme, placement] :
       {std::pair("dp", "beside"), {"dp", "dedicated"}, {"ps", "beside"}, {"ps", "dedicated"}}) {
    const std::string options = "scheme." + std::string(scheme) + ".";
    std::vector<std::string> arguments = {"train", "trial.toml", "--scheme",
                                          scheme,  "--world",    "2"};
    for (const std::string& option :
         {std::string("transport=tcp"), "port=" + number, "placement=" + std::string(placement)})
      arguments.insert(arguments.end(), {"--set", options + option});
    const Ended ended = run(arguments);
    EXPECT_LT(ended.seconds, TrainConfig{}.timeout_s) << scheme << " " << placement;
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.err, HasSubstr("cannot listen on port " + number));
    EXPECT_THAT(ended.err, HasSubstr("set " + options + "port to another"));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
}

TEST_F(CommandLineTest, WritesKeysOnceAndTrainsWithThem) {
  const std::string keys = path("keys");
  const std::vector<std::string> write_keys = {"keys", keys, "--workers", "2"};
  const Ended written = run(write_keys);
  EXPECT_EQ(written.status, 0) << written.err;
  EXPECT_THAT(written.out, HasSubstr("the servers and of 2 workers"));
  EXPECT_THAT(refusal(write_keys), HasSubstr("not overwritten"));
  std::vector<std::string> train = {"train", "trial.toml", "--scheme", "ps", "--world", "2"};
  for (const std::string& option :
       {std::string("transport=tcp"), std::string("address=127.0.0.1"), "keys=" + keys})
    train.insert(train.end(), {"--set", "scheme.ps." + option});
  const Ended ended = run(train);
  EXPECT_EQ(ended.status, 0) << ended.err;
  std::filesystem::permissions(keys + "/worker-1.secret", std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  const Ended refused = run(train);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("worker-1.secret is not secret"));
}

TEST_F(CommandLineTest, AnAddressThatOthersReachNeedsKeys) {
  EXPECT_THAT(refusal({"train", "trial.toml", "--scheme", "ps", "--world", "2", "--set",
                       "scheme.ps.transport=tcp", "--set", "scheme.ps.address=192.168.1.5"}),
              HasSubstr("ringside keys DIR"));
}

TEST_F(CommandLineTest, TrainsOnce) {
  const Ended ended = run({"train", "trial.toml", "--scheme", "ddp", "--world", "2", "--set",
                           "train.evaluate_every=2", "--set", "train.evaluate_batches=1"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("step 1/3  loss "));
  EXPECT_THAT(ended.out, HasSubstr("held-out loss "));
  EXPECT_THAT(ended.out, HasSubstr("tokens/s"));
  EXPECT_FALSE(std::filesystem::exists(path("results")));
}

TEST_F(CommandLineTest, TrainingOnFilesThatChangeFailsByName) {
  const std::vector<std::string> train = {"train", "trial.toml", "--scheme", "single"};
  auto save = train;
  save.insert(save.end(), {"--save", "weights.safetensors"});
  ASSERT_EQ(run(save).status, 0);
  const auto changed = [&](const std::string& name, const std::string& text) {
    auto arguments = train;
    for (const char* one : {"train.initial_weights=weights.safetensors", "train.steps=200"})
      arguments.insert(arguments.end(), {"--set", one});
    testing::Program program = start(arguments);
    EXPECT_TRUE(program.wait_for("step   1/200"));
    kill(program.pid(), SIGSTOP);  // the program checks the files again after the run
    folder_.write(name, text);
    kill(program.pid(), SIGCONT);
    const Ended ended = program.wait();
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.err, HasSubstr(name + " changed while"));
  };
  changed("weights.safetensors", "other weights");
  run(save);
  changed("text.txt", "other text");
}

TEST_F(CommandLineTest, TheOutputIsWrittenAtTheEndOrNotAtAll) {
  const std::vector<std::string> train = {"train", "trial.toml", "--scheme", "single", "--output"};
  const auto to = [&](const std::string& file, std::vector<std::string> more = {}) {
    auto arguments = train;
    arguments.push_back(file);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  folder_.write("row.json", "old");
  EXPECT_THAT(refusal(to("absent/row.json")), HasSubstr("--output absent/row.json"));
  EXPECT_THAT(refusal(to("/dev/null")), HasSubstr("not a file"));
  EXPECT_THAT(refusal(to("row.json", {"--set", "train.steps=0"})), HasSubstr("train.steps"));
  EXPECT_EQ(run(to("row.json", {"--set", "optimizer.lr=1e30"})).status, 1);
  EXPECT_EQ(folder_.read("row.json"), "old");
  EXPECT_EQ(run(to("row.json")).status, 0);
  const auto written = nlohmann::json::parse(folder_.read("row.json"));
  EXPECT_EQ(written.at("row").at("status"), "ok");
  EXPECT_TRUE(written.at("environment").contains("cpu"));
  EXPECT_THAT(written.at("environment").at("built_commit").get<std::string>(),
              ::testing::MatchesRegex("unknown|[0-9a-f]+(-dirty)?"));
  EXPECT_FALSE(std::filesystem::exists(path("row.json.part")));
}

TEST_F(CommandLineTest, FailedRunsStayInTheTable) {
  // With so large a learning rate the loss soon becomes infinite or NaN.
  const Ended ended = run({"compare", "trial.toml", "--set", "optimizer.lr=1e30"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.out, HasSubstr("FAILED: rank 0"));
  EXPECT_THAT(ended.err, HasSubstr("ringside: 3 of 3 runs failed"));
  EXPECT_THAT(folder_.read("results/trial/rows.jsonl"), HasSubstr("\"status\":\"failed\""));
}

}  // namespace
}  // namespace ringside
