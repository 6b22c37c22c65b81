#include "experiments/tools/cli/experiment_arguments.h"

namespace ringside::tools::cli {

void add_experiment(CommandOptions& options, ExperimentArguments& experiment) {
  options.add("FILE", experiment.file, "the experiment file (TOML)").required();
  add_settings(options, experiment.settings);
}

void add_settings(CommandOptions& options, std::vector<std::string>& settings) {
  options
      .add("--set", settings,
           "override a key of the file, as in train.steps=100, data.path=text.txt or "
           "scheme.ps.servers=4; may be given several times")
      .type("TABLE.KEY=VALUE")
      .one_word();
}

void add_resume(CommandOptions& options, ResumeArguments& resume, const std::string& text) {
  const Option kept = options.flag("--resume", resume.resume, text);
  options
      .flag("--mixed", resume.mixed,
            "keep rows that another program, or a machine with another processor or GPUs, "
            "has made; environment.json lists them")
      .needs(kept);
}

void add_results(CommandOptions& options, std::string& results) {
  options
      .add("--results", results, "write results to DIR/NAME, where NAME is the experiment's name")
      .type("DIR")
      .shows_default();
}

}  // namespace ringside::tools::cli
