#include "experiments/runner/results/saved_results.h"

#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "experiments/runner/registry/plugins.h"
#include "experiments/runner/results/folder_lock.h"

namespace ringside::runner {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The text of a file that holds a JSON object; empty, with a complaint, if it does not.
std::string read_object(const fs::path& file, std::vector<std::string>& complaints) {
  std::ifstream in(file);
  if (!in) {
    complaints.push_back(fmt::format("{}: the file is missing", file.string()));
    return "";
  }
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (json::parse(text, nullptr, false).is_object()) return text;
  complaints.push_back(fmt::format("{}: not a JSON object, left out", file.string()));
  return "";
}

/// The text of an exception without the name that the JSON library puts before it in brackets.
std::string cause_of(const std::exception& error) {
  const std::string text = error.what();
  const auto bracket = text.starts_with("[json.exception") ? text.find("] ") : std::string::npos;
  return bracket == std::string::npos ? text : text.substr(bracket + 2);
}

void read_rows(SavedResults& results) {
  const fs::path file = results.folder / "rows.jsonl";
  std::ifstream in(file);
  std::map<int, int> of_other_schemas;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const bool cut_short = in.eof();  // the last line has no line feed
    try {
      const json row = json::parse(line);
      if (const int schema = row.at("schema").get<int>(); schema != RunRecord::schema)
        ++of_other_schemas[schema];
      else
        results.rows.push_back(row_from_json(row, options_in(row)));
    } catch (const MissingPlugin& error) {
      throw Error("{}:{}: {}", file.string(), number, error.what());
    } catch (const std::exception& error) {
      if (cut_short && is_held(results.folder)) break;
      results.complaints.push_back(
          cut_short
              ? fmt::format("{}:{}: the last row is cut short and left out", file.string(), number)
              : fmt::format("{}:{}: not a row, left out ({})", file.string(), number,
                            cause_of(error)));
    }
  }
  for (const auto& [schema, count] : of_other_schemas)
    results.complaints.push_back(fmt::format(
        "{}: {} row{} of schema {} left out, since this program reads schema {}; run the "
        "comparison anew, or use the program that made the rows (environment.json names its "
        "commit)",
        file.string(), count, count == 1 ? "" : "s", schema, RunRecord::schema));
}

}  // namespace

SavedResults read_results(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw Error("{}: no such folder; name a folder that `ringside compare` wrote", folder.string());
  if (!fs::is_regular_file(folder / "rows.jsonl"))
    throw Error(
        "{}: not a folder of results: it has no rows.jsonl; name a folder that `ringside "
        "compare` wrote, as in results/quickstart",
        folder.string());
  SavedResults results;
  results.folder = folder;
  read_rows(results);
  if (fs::exists(folder / "plan.json"))
    results.plan = read_object(folder / "plan.json", results.complaints);
  results.environment = read_object(folder / "environment.json", results.complaints);
  results.name = results.rows.empty() ? fs::absolute(folder / "").parent_path().filename().string()
                                      : results.rows.front().plan.experiment;
  return results;
}

}  // namespace ringside::runner
