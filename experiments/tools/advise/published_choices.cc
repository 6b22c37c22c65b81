#include "experiments/tools/advise/published_choices.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "experiments/runner/config/toml.h"
#include "experiments/tools/advise/advice_text.h"

namespace ringside::tools::advise {
namespace {

constexpr std::string_view table_name = "choice";

bool is_choice(const runner::TomlValue& one) {
  return one.path.size() == 1 && one.path[0] == table_name && !one.elements.empty();
}

using Is = std::function<bool(const Candidate&)>;

bool is_dp(const Candidate& one) { return one.family.topology == SchemeTopology::master; }
bool is_ddp(const Candidate& one) {
  return one.family.topology == SchemeTopology::peers && one.family.stage == ZeroStage::none;
}
bool is_fsdp(const Candidate& one) { return one.family.stage >= ZeroStage::gradients; }
bool is_plain(const Candidate& one) {
  return one.recompute == Recompute::none && one.offload == Offload::none;
}

struct Word {
  std::string_view name;
  Is holds;
};
const std::vector<Word>& advice_words() {
  static const std::vector<Word> words = {
      {"dp", is_dp},
      {"ddp", is_ddp},
      {"fsdp", is_fsdp},
      {"offload", [](const Candidate& one) { return one.offload != Offload::none; }},
      {"16 bits",
       [](const Candidate& one) { return one.precision == "bf16" || one.precision == "fp16"; }}};
  return words;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts >> std::ws, part, ',');) words.push_back(part);
  return words;
}

bool has_word(const std::string& name, const Candidate& candidate) {
  for (const Word& word : advice_words())
    if (word.name == name) return word.holds(candidate);
  return false;
}

void check(const PublishedChoice& choice, const std::string& place) {
  if (choice.question.empty() || choice.model.empty() || choice.cluster.empty() || choice.batch < 1)
    throw Error("{}: [[{}]] needs question, model, cluster and batch", place, table_name);
  if (choice.contradiction.empty() != choice.contradicted.empty())
    throw Error("{}: contradiction and contradicted go together: a sentence, and against what",
                place);
  const std::pair<const char*, const std::string&> asked[] = {
      {"advised", choice.advised},
      {"ddp", choice.ddp},
      {"fsdp", choice.fsdp},
      {"communication", choice.communication}};
  for (const std::string& one : choice.contradicted)
    if (std::none_of(std::begin(asked), std::end(asked),
                     [&](const auto& key) { return key.first == one && !key.second.empty(); }))
      throw Error("{}: contradicted: nothing was published as '{}'", place, one);
  for (const std::string& word : words_of(choice.advised)) {
    std::vector<std::string_view> known;
    for (const Word& one : advice_words()) known.push_back(one.name);
    if (std::find(known.begin(), known.end(), word) == known.end())
      throw Error("{}: advised = '{}': '{}' is none of {}", place, choice.advised, word,
                  fmt::join(known, ", "));
  }
}

Question question_of(const PublishedChoice& choice, int processes) {
  std::vector<std::string> settings = {"device.kind=sim", "device.cluster=" + choice.cluster,
                                       fmt::format("train.global_batch={}", choice.batch)};
  settings.insert(settings.end(), choice.set.begin(), choice.set.end());
  Question question;
  question.training = training_of_preset(choice.model, settings);
  question.precisions = usual_precisions(question);
  question.worlds = choice.worlds;
  question.processes = processes;
  complete(question);
  return question;
}

/// The word for the fitness of a kind of schemes, and the figures on which it rests.
std::pair<std::string, std::string> fitness_of(const Advice& advice, const Is& is) {
  std::optional<Considered> plain, any;
  for (const Considered& one : advice.ranked) {
    if (!is(one.candidate)) continue;
    auto& best = is_plain(one.candidate) ? plain : any;
    if (!best || one.samples_per_s > best->samples_per_s) best = one;
  }
  // A candidate that compute alone rules out would still run.
  const auto slow =
      std::find_if(advice.others.begin(), advice.others.end(), [&](const Considered& one) {
        return is(one.candidate) &&
               (one.outcome == Outcome::cannot_win || one.outcome == Outcome::needless);
      });
  if (plain) {
    const double efficiency = plain->efficiency;
    return {efficiency >= 0.9    ? "excellent"
            : efficiency >= 0.75 ? "good"
                                 : "poor",
            fmt::format("{:.0f}%", 100 * efficiency)};
  }
  if (any)
    return {"barely", fmt::format("{}, {:.0f}%", label_of(any->candidate), 100 * any->efficiency)};
  if (slow != advice.others.end())
    return {"barely",
            fmt::format("{}, at least {:.0f}% slower than the advised", label_of(slow->candidate),
                        100 * (slow->bound_ms / advice.ranked.front().step_ms - 1))};
  double least_gb = 0;
  for (const Considered& one : advice.others)
    if (is(one.candidate) && (least_gb == 0 || one.needs_gb < least_gb)) least_gb = one.needs_gb;
  return {"impossible", fmt::format("{:.0f} GB", least_gb)};
}

std::pair<std::string, std::string> communication_of(const Considered& one) {
  const double share = one.exposed_ms / one.step_ms;
  return {share < 0.05   ? "low"
          : share < 0.15 ? "medium"
          : share < 0.3  ? "high"
                         : "very high",
          fmt::format("{:.0f}% of the step", 100 * share)};
}

}  // namespace

Fields fields_of(PublishedChoice& choice) {
  return {{"question", &choice.question},
          {"model", &choice.model},
          {"cluster", &choice.cluster},
          {"batch", &choice.batch},
          {"worlds", &choice.worlds},
          {"set", &choice.set},
          {"advised", &choice.advised},
          {"ddp", &choice.ddp},
          {"fsdp", &choice.fsdp},
          {"communication", &choice.communication},
          {"contradiction", &choice.contradiction},
          {"contradicted", &choice.contradicted}};
}

bool lists_choices(const std::filesystem::path& file) {
  const std::vector<runner::TomlValue> values = runner::read_toml(file);
  return std::any_of(values.begin(), values.end(), is_choice);
}

std::vector<PublishedChoice> read_choices(const std::filesystem::path& file) {
  std::vector<PublishedChoice> choices;
  for (const runner::TomlValue& value : runner::read_toml(file)) {
    if (!is_choice(value))
      throw Error("{}: {} does not belong beside [[{}]]", value.place, fmt::join(value.path, "."),
                  table_name);
    for (const runner::TomlElement& element : value.elements) {
      PublishedChoice& choice = choices.emplace_back();
      for (const runner::TomlValue& one : element.values)
        runner::put(one, fields_of(choice), table_name);
      check(choice, element.place);
      choice.cluster = (file.parent_path() / choice.cluster).lexically_normal().string();
    }
  }
  return choices;
}

std::vector<runner::ReproducedChoice> answers_to(const PublishedChoice& choice,
                                                 const runner::Simulate& simulate, int processes) {
  const Question question = question_of(choice, processes);
  const Advice advice =
      search(question, simulate, runner::rehearse, seconds_now, [](const Considered&) {});
  std::vector<runner::ReproducedChoice> answers;
  const auto add = [&](const std::string& asked, const std::string& published) -> auto& {
    const auto& against = choice.contradicted;
    const bool contradicted = std::find(against.begin(), against.end(), asked) != against.end();
    return answers.emplace_back(
        runner::ReproducedChoice{.question = choice.question,
                                 .asked = asked,
                                 .published = published,
                                 .contradiction = contradicted ? choice.contradiction : "",
                                 .assumed = {question.cluster().name, question.cluster().assumed}});
  };
  runner::ReproducedChoice& advised = add("advised", choice.advised);
  if (advice.interrupted || advice.ranked.empty()) return answers;
  const Considered& best = advice.ranked.front();
  const std::vector<std::string> words = words_of(choice.advised);
  advised.here = label_of(best.candidate);
  advised.agrees = std::all_of(words.begin(), words.end(), [&](const std::string& word) {
    return has_word(word, best.candidate);
  });
  advised.reason = fmt::format("{:.4g} samples/s, {:.1f} of {:.0f} GB, {}", best.samples_per_s,
                               best.needs_gb, question.memory_gb(), reason_of(question, advice));
  const auto add_word = [&](const std::string& asked, const std::string& published,
                            const std::pair<std::string, std::string>& here) {
    if (published.empty()) return;
    runner::ReproducedChoice& answer = add(asked, published);
    answer.here = fmt::format("{} ({})", here.first, here.second);
    answer.agrees =
        here.first == published || (published == "possible" && here.first != "impossible");
  };
  add_word("ddp", choice.ddp, fitness_of(advice, is_ddp));
  add_word("fsdp", choice.fsdp, fitness_of(advice, is_fsdp));
  add_word("communication", choice.communication, communication_of(best));
  return answers;
}

}  // namespace ringside::tools::advise
