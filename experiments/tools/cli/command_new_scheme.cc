// ringside new scheme
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>

#include "core/base/error.h"
#include "core/compress/compressor_info.h"
#include "core/plan/run_plan.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/new_scheme_texts.h"

namespace ringside::tools::cli {
namespace {

namespace fs = std::filesystem;

struct NewSchemeArguments {
  std::string name, kind = "local", folder;
};

/// A kind of plug-in to begin with. `checked` is the scheme that runs are made of.
struct Kind {
  std::string_view name, contents, checked, checked_with, experiment_case;
};
constexpr Kind kinds[] = {
    {"local", "a rule by which workers with replicas of their own exchange values: local SGD",
     "@NAME@", "", "scheme = \"@NAME@\"\nset = { \"scheme.@NAME@.sync_every\" = 4 }"},
    {"compressor", "a code for gradients, which all schemes with a compressor can take: top-k",
     "ddp", " --set scheme.ddp.compressor=@NAME@",
     "scheme = \"ddp\"\nset = { \"scheme.ddp.compressor\" = \"@NAME@\" }"},
    {"gradients", "a sum of gradients of its own: one all-reduce after backward", "@NAME@", "",
     "scheme = \"@NAME@\""}};

const Kind& find_kind(const std::string& name) {
  std::vector<std::string_view> known;
  for (const Kind& kind : kinds) {
    if (kind.name == name) return kind;
    known.push_back(kind.name);
  }
  throw Error("--kind {}: choose {}", name, one_of(known));
}

template <class Rows>
bool has(const Rows& rows, const std::string& name) {
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
}

void check_name(const std::string& name) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (name.empty() || !(name[0] >= 'a' && name[0] <= 'z') ||
      !std::all_of(name.begin(), name.end(), [&](char c) { return allowed(c) || c == '_'; }))
    throw Error(
        "new scheme '{}': a name has small letters, digits and '_', and begins with a "
        "letter",
        name);
  if (has(runner::scheme_rows(), name) || has(compressors(), name) || name == no_compressor)
    throw Error("new scheme {}: Ringside has one of this name; choose another", name);
}

/// "my_rule" -> "MyRule"
std::string class_of(const std::string& name) {
  std::string out;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') out += begins ? static_cast<char>(std::toupper(c)) : c;
    begins = c == '_';
  }
  return out;
}

std::string replaced(std::string text, const std::map<std::string, std::string>& words) {
  for (const auto& [word, value] : words)
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += value.size())
      text.replace(at, word.size(), value);
  return text;
}

void write_plugin(const NewSchemeArguments& arguments, const Process& process) {
  check_name(arguments.name);
  const Kind& kind = find_kind(arguments.kind);
  const fs::path folder = arguments.folder.empty() ? arguments.name : arguments.folder;
  if (fs::exists(folder))
    throw Error("new scheme {}: {} exists; choose another folder with --folder", arguments.name,
                folder.string());
  const std::map<std::string, std::string> name = {{"@NAME@", arguments.name}};
  std::map<std::string, std::string> words = name;
  words["@CLASS@"] = class_of(arguments.name);
  words["@CONTENTS@"] = kind.contents;
  words["@CHECKED@"] = replaced(std::string(kind.checked), name);
  words["@CHECKED_WITH@"] = replaced(std::string(kind.checked_with), name);
  words["@CASE@"] = replaced(std::string(kind.experiment_case), name);
  words["@PROGRAM_FOLDER@"] = fs::canonical(process.program).parent_path().string();
  fs::create_directories(folder);
  const std::string source = fmt::format("{}.cc", kind.name);
  for (const NewSchemeText& one : new_scheme_texts()) {
    const bool is_source = one.name.ends_with(".cc.in");
    if (is_source && one.name != source + ".in") continue;
    const fs::path file = folder / (is_source ? arguments.name + ".cc" : std::string(one.name));
    if (!(std::ofstream(file) << replaced(std::string(one.text), words)))
      throw Error("new scheme {}: cannot write {}", arguments.name, file.string());
  }
  std::cout << fmt::format(
                   "{0} has a plug-in that works: {1}.\n\n"
                   "    cd {0}\n"
                   "    cmake -B build && cmake --build build\n"
                   "    ctest --test-dir build --output-on-failure\n"
                   "    ringside compare experiment.toml --quick\n",
                   folder.string(), kind.contents)
            << std::flush;
}

}  // namespace

Execute new_scheme_command(CommandOptions& options) {
  options.summary("write a folder with a scheme of your own, its test and an experiment");
  const auto arguments = std::make_shared<NewSchemeArguments>();
  options.add("NAME", arguments->name, "its name in tables").required();
  options
      .add("--kind", arguments->kind,
           "local: replicas that exchange values; compressor: gradients in fewer bytes; "
           "gradients: a sum of gradients of your own")
      .type("KIND")
      .shows_default();
  options.add("--folder", arguments->folder, "the folder to write; NAME if left out").type("DIR");
  return [arguments](const Process& process) {
    try {
      write_plugin(*arguments, process);
      return ok;
    } catch (const Error& error) {
      return complain(wrong_input, error.what());
    }
  };
}

}  // namespace ringside::tools::cli
