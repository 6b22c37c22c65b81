// The commands that make runs of experiment files.
#include "experiments/tools/cli/cli_commands.h"

namespace ringside {
namespace {

void add_settings(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--set", arguments.overrides,
                  "override a key of the file, as in train.steps=100, data.path=text.txt or "
                  "scheme.ps.servers=4; may be given several times")
      ->type_name("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
}

void add_experiment(CLI::App& command, Arguments& arguments) {
  command.add_option("FILE", arguments.file, "the experiment file (TOML)")->required();
  add_settings(command, arguments);
}

void add_mixed(CLI::App& command, Arguments& arguments, CLI::Option* resume) {
  command
      .add_flag("--mixed", arguments.mixed,
                "keep rows that another program, or a machine with another processor or GPUs, has "
                "made; environment.json says which")
      ->needs(resume);
}

void add_comparison(CLI::App& compare, Arguments& arguments) {
  add_experiment(compare, arguments);
  compare
      .add_option("--schemes", arguments.schemes,
                  "run only these schemes, as in ddp,fsdp, and leave out cases of other schemes")
      ->delimiter(',')
      ->type_name("A,B")
      ->allow_extra_args(false);
  compare
      .add_option("--worlds", arguments.worlds,
                  "run only with these numbers of workers, as in 1,2, in place of those of the "
                  "file and of its cases")
      ->delimiter(',')
      ->type_name("N,M")
      ->allow_extra_args(false);
  compare
      .add_option("--case", arguments.cases,
                  "add a case to the comparison: a scheme with settings of its own, as in 'ps: "
                  "scheme.ps.servers=1, train.micro_batch=2'; among the settings may be label, "
                  "world and worlds; may be given several times; for a product of lists set "
                  "compare.sweep.KEY='[A, B]'")
      ->type_name("SCHEME: KEY=VALUE, ...")
      ->allow_extra_args(false);
  add_job(compare, arguments.job);
  CLI::Option* resume =
      compare.add_flag("--resume", arguments.resume,
                       "keep the rows of the results folder, and make only the missing runs; "
                       "without --resume, earlier results are moved to its subfolders before-1, "
                       "before-2, ...");
  add_mixed(compare, arguments, resume);
  compare.add_flag("--json", arguments.events,
                   "print one event a line, in JSON, in place of the tables: what is planned, and "
                   "every run as it goes and as it ends");
  add_results(compare, arguments);
}

CLI::App* add_compare(CLI::App& app, Arguments& arguments) {
  CLI::App* compare = app.add_subcommand("compare",
                                         "run every scheme and case of an experiment with every "
                                         "number of workers, and print one table");
  add_comparison(*compare, arguments);
  add_seat(*compare, arguments.job);
  return compare;
}

CLI::App* add_launch(CLI::App& app, Arguments& arguments) {
  CLI::App* launch = app.add_subcommand(
      "launch", "do what `compare` does, with workers on several hosts, where ssh starts agents");
  add_comparison(*launch, arguments);
  add_hosts(*launch, arguments.job)->required();
  return launch;
}

CLI::App* add_validate(CLI::App& app, Arguments& arguments) {
  CLI::App* validate = app.add_subcommand(
      "validate",
      "compare what several experiments ask for, and print one table: what was published of their "
      "cases, and what came out");
  validate
      ->add_option(
          "FILES", arguments.files,
          "experiment files (TOML) whose cases have published_ms, published_per_s and so on, as "
          "experiments/published/validate/*.toml, and files of collectives, as nccl-tests.toml "
          "there, "
          "to which settings do not apply")
      ->required();
  add_settings(*validate, arguments);
  add_results(*validate, arguments);
  return validate;
}

CLI::App* add_reproduce(CLI::App& app, Arguments& arguments) {
  CLI::App* reproduce =
      app.add_subcommand("reproduce",
                         "make published tables anew: print what was published, what came out of "
                         "simulated clusters or "
                         "of this machine, how far they are apart, and what each table assumes");
  reproduce->add_option(
      "TABLES", arguments.tables,
      "names of tables, as in T3 V6, or all; without a name the tables are listed");
  add_settings(*reproduce, arguments);
  CLI::Option* resume =
      reproduce->add_flag("--resume", arguments.resume,
                          "keep what is in the results folder, and make only the missing runs");
  add_mixed(*reproduce, arguments, resume);
  reproduce
      ->add_option("--results", arguments.results,
                   "write results to DIR/reproduce, with these tables in tables.md and tables.json")
      ->type_name("DIR")
      ->capture_default_str();
  reproduce
      ->add_option("--tables", arguments.index,
                   "the index of the tables (TOML): for each its experiment files and what it "
                   "assumes")
      ->type_name("FILE")
      ->capture_default_str();
  return reproduce;
}

CLI::App* add_advise(CLI::App& app, Arguments& arguments) {
  CLI::App* advise = app.add_subcommand(
      "advise",
      "simulate the ways of training a model on a cluster, and say which is best and why: scheme, "
      "degree of sharding, precision, recomputation, offload, micro-batches, buckets");
  advise
      ->add_option("MODEL", arguments.file,
                   "a preset (see `ringside list models`), or an experiment file, whose training "
                   "stays as it is but for what is chosen")
      ->required();
  add_settings(*advise, arguments);
  advise
      ->add_option("--cluster", arguments.cluster,
                   "the cluster file; default: that of the experiment file, or this machine as "
                   "`ringside calibrate` measured it")
      ->type_name("FILE");
  advise
      ->add_option("--batch", arguments.batch,
                   "the global batch; default: that of the experiment file")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->type_name("SAMPLES");
  advise
      ->add_option("--worlds", arguments.worlds,
                   "numbers of workers to consider; default: all devices, and with --deadline also "
                   "half of the machines, a quarter and so on")
      ->delimiter(',')
      ->type_name("N,M")
      ->check(CLI::Range(1, 1'000'000))
      ->allow_extra_args(false);
  advise
      ->add_option("--precisions", arguments.precisions,
                   "fp32, tf32, bf16, fp16: precisions to consider; default: that of the "
                   "experiment file; for presets bf16 or fp16, and tf32 or fp32")
      ->delimiter(',')
      ->type_name("A,B")
      ->allow_extra_args(false);
  advise->add_option("--price", arguments.price, "of a device and hour, in any currency")
      ->check(CLI::PositiveNumber)
      ->type_name("P");
  advise->add_option("--samples", arguments.samples, "samples that are to be trained")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  advise
      ->add_option("--deadline", arguments.deadline_h,
                   "hours within which they are to be trained: the fewest hours of devices win "
                   "that meet it")
      ->check(CLI::PositiveNumber)
      ->type_name("HOURS");
  advise
      ->add_option("--reserve", arguments.reserve_gb,
                   "GB of each GPU that stay free for its context, NCCL's buffers and fragments")
      ->check(CLI::NonNegativeNumber)
      ->type_name("GB")
      ->capture_default_str();
  advise->add_option("--seconds", arguments.seconds, "for which candidates are simulated")
      ->check(CLI::PositiveNumber)
      ->type_name("S")
      ->capture_default_str();
  advise->add_option("--top", arguments.shown, "lines of the table")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  advise
      ->add_option("--cases", arguments.written,
                   "how many of the best become cases of the experiment file that is written to "
                   "DIR/advise")
      ->check(CLI::Range(1, 100))
      ->type_name("N")
      ->capture_default_str();
  advise->add_flag("--explain", arguments.explain, "say of every other candidate why it loses");
  add_results(*advise, arguments);
  return advise;
}

CLI::App* add_train(CLI::App& app, Arguments& arguments) {
  CLI::App* train =
      app.add_subcommand("train", "run one scheme once, and print its loss as it goes");
  add_experiment(*train, arguments);
  train->add_option("--scheme", arguments.scheme, "the scheme to run (see `ringside list`)")
      ->type_name("NAME")
      ->required();
  train->add_option("--world", arguments.world, "number of workers")
      ->type_name("N")
      ->capture_default_str();
  train
      ->add_option("--output", arguments.output,
                   "write a JSON file with the run's figures and its environment")
      ->type_name("FILE");
  train
      ->add_option(
          "--save", arguments.save,
          "write the trained weights to a safetensors file, which train.initial_weights can "
          "read; tensors have the names that Hugging Face or torchvision gives them, if "
          "either has the model")
      ->type_name("FILE");
  return train;
}

}  // namespace

void add_results(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--results", arguments.results,
                  "write results to DIR/NAME, where NAME is the experiment's name")
      ->type_name("DIR")
      ->capture_default_str();
}

void add_experiment_commands(CLI::App& app, Arguments& arguments, const Process& process,
                             Commands& commands) {
  commands.push_back(
      {add_compare(app, arguments), [&] { return compare_command(arguments, process); }, true});
  commands.push_back(
      {add_launch(app, arguments), [&] { return compare_command(arguments, process); }, true});
  commands.push_back(
      {add_validate(app, arguments), [&] { return validate_command(arguments, process); }, true});
  commands.push_back(
      {add_reproduce(app, arguments), [&] { return reproduce_command(arguments, process); }, true});
  commands.push_back(
      {add_advise(app, arguments), [&] { return advise_command(arguments, process); }, true});
  commands.push_back(
      {add_train(app, arguments), [&] { return train_command(arguments, process); }, true});
}

}  // namespace ringside
