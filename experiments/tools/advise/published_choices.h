// Published choices of a scheme, to compare with the answers of `advise`.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "experiments/runner/report/reproduced.h"
#include "experiments/runner/run/parallel_simulations.h"

namespace ringside::tools::advise {

/// One question and its published answer: a table [[choice]].
struct PublishedChoice {
  std::string question{};  // its label
  std::string model{};     // a preset
  std::string cluster{};   // a cluster file; in the file relative to its folder
  std::int64_t batch = 0;  // samples of a step
  std::vector<std::int64_t> worlds{};
  std::vector<std::string> set{};  // settings, as of --set
  /// The published answers; empty: none of this kind.
  std::string advised{};        // words of advice_words, all of which hold of what is advised
  std::string ddp{}, fsdp{};    // words of fitness_words
  std::string communication{};  // words of share_words
  /// One sentence, with the arithmetic, against these of the four: "advised", "ddp", "fsdp",
  /// "communication".
  std::string contradiction{};
  std::vector<std::string> contradicted{};
};

Fields fields_of(PublishedChoice& choice);

/// Whether the file is a list of [[choice]]. Throws Error if it cannot be read as TOML.
bool lists_choices(const std::filesystem::path& file);
/// Throws Error that names file and line for a key that is unknown, has a value of the wrong type
/// or is missing.
std::vector<PublishedChoice> read_choices(const std::filesystem::path& file);

/// Searches for the best way of training, and gives the result in the words of published answers:
///   advised: "dp", "ddp", "fsdp" (ZeRO's second or third stage), "offload", "16 bits", with commas
///   between several;
///   ddp, fsdp: "impossible": nothing fits; "barely": with recomputation or offload alone; else by
///   efficiency "excellent" (90% or more), "good" (75%) and "poor". "possible" stands for all of
///   them but the first;
///   communication: the share of the advised step in which compute waits for it: "low" (below 5%),
///   "medium" (15%), "high" (30%) and "very high".
/// A choice without published answers has one answer: the advised candidate. Throws Error as
/// search() does.
std::vector<runner::ReproducedChoice> answers_to(const PublishedChoice& choice,
                                                 const runner::Simulate& simulate, int processes);

}  // namespace ringside::tools::advise
