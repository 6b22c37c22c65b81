#include "experiments/runner/config/experiment_text.h"

#include <fmt/ranges.h>

#include <sstream>

#include "experiments/runner/config/toml.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {
namespace {

/// The lines of the fields that differ from those of a default-constructed struct.
std::string changed(const Fields& fields, const Fields& defaults) {
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string text = toml_text(fields[i].value);
    if (text != toml_text(defaults[i].value))
      out += fmt::format("{} = {}\n", toml_key(std::string(fields[i].name)), text);
  }
  return out;
}

std::string table(const std::string& name, const Fields& fields, const Fields& defaults) {
  const std::string values = changed(fields, defaults);
  return values.empty() ? "" : fmt::format("\n[{}]\n{}", name, values);
}

std::string scheme_tables(ExperimentConfig& config) {
  std::string out;
  for (auto& [scheme, options] : config.scheme_options) {
    Options defaults = default_options(scheme);
    out += table("scheme." + scheme, options.fields(), defaults.fields());
  }
  return out;
}

std::string case_text(CaseConfig one) {
  CaseConfig defaults;
  std::string out = "\n[[compare.case]]\n" + changed(fields_of(one), fields_of(defaults));
  std::vector<std::string> set;
  for (const Assignment& assignment : one.set)
    set.push_back(
        fmt::format("\"{}\" = {}", fmt::join(assignment.path, "."), assignment.data.text()));
  if (!set.empty()) out += fmt::format("set = {{ {} }}\n", fmt::join(set, ", "));
  return out;
}

}  // namespace

std::string experiment_text(const Experiment& experiment, const std::string& comment) {
  ExperimentConfig common = experiment.common, untouched;
  std::string out;
  std::istringstream lines(comment);
  for (std::string line; std::getline(lines, line);)
    out += line.empty() ? "#\n" : fmt::format("# {}\n", line);
  out += fmt::format("name = {}\n", toml_text(&common.name));
  const auto tables = tables_of(common), defaults = tables_of(untouched);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const auto& [name, fields] = tables[i];
    if (name == "compare") out += scheme_tables(common);  // [compare] and its cases come last
    out += table(std::string(name), fields, defaults[i].second);
  }
  for (const CaseConfig& one : experiment.cases) out += case_text(one);
  return out;
}

}  // namespace ringside::runner
