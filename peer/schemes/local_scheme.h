// Schemes made of a LocalRule: workers, definition, and info.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "core/scheme/plain_scheme.h"
#include "core/scheme/scheme.h"
#include "peer/schemes/local_rule.h"

namespace ringside::peer {

using RuleMaker = std::function<std::unique_ptr<LocalRule>(const RuleContext&)>;

/// A worker of a scheme with this rule, and the scheme's definition. `name` names the exchange for
/// traces and errors: "average". Messages lie in memory of kind communication: one for each
/// fragment, and one for each source.
std::unique_ptr<SyncScheme> make_by_rule(const RankContext& context, const char* name,
                                         const RuleMaker& make);
std::unique_ptr<SyncScheme> define_by_rule(const RankContext& context, const char* name,
                                           const RuleMaker& make);

/// The info of a scheme whose rule is of class Rule, made of a RuleContext and of options of type
/// Own. `exchange` is as `name` above. Runs go on from checkpoints, as the rule shows what it keeps
/// (LocalRule::visit_state). The caller adds the fewest bytes.
template <class Rule, class Own>
SchemeInfo local_scheme(std::string_view name, std::string_view summary, const char* exchange,
                        Own defaults) {
  SchemeInfo r = plain_scheme(name, summary, std::move(defaults));
  const auto maker = [](const Options& options) -> RuleMaker {
    return [own = options.as<Own>()](const RuleContext& context) {
      return std::make_unique<Rule>(context, own);
    };
  };
  r.promise = [](const Options&) { return Promise::own_algorithm; };
  r.own_replicas = true;
  r.resumes = [](const Options&) { return true; };
  r.make = [=](const RankContext& context, const Options& options) {
    return make_by_rule(context, exchange, maker(options));
  };
  r.define = [=](const RankContext& context, const Options& options) {
    return define_by_rule(context, exchange, maker(options));
  };
  return r;
}

/// The bytes that a worker sends where the sum of all messages of `elements` elements is taken once
/// every `period` steps: 2 * (N - 1) / N times the messages of N workers.
double sum_bytes(int workers, std::int64_t elements, std::int64_t period);

}  // namespace ringside::peer
