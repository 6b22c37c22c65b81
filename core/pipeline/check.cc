// check() of schedules: first every action by itself, then each stage, then values between stages,
// and last the ranks together.
#include <fmt/format.h>

#include <array>
#include <map>
#include <vector>

#include "core/base/error.h"
#include "core/pipeline/circular_wait.h"
#include "core/pipeline/values.h"

namespace ringside::pipeline {
namespace {

constexpr std::size_t operations = std::size(operation_names);
constexpr std::int64_t nowhere = -1;

class ScheduleCheck {
 public:
  explicit ScheduleCheck(const Schedule& schedule)
      : schedule_(schedule), with_sends_(has_sends(schedule)) {}

  void run() {
    check_numbers();
    check_ranks();
    check_actions();
    for (int stage = 0; stage < schedule_.stages(); ++stage) check_stage(stage);
    for (int stage = 0; stage < schedule_.stages(); ++stage)
      for (std::int64_t m = 0; m < schedule_.micro_batches; ++m) check_values(stage, m);
    check_order_between_stages();
    if (with_sends_) check_order_of_receives();
    const std::string circle = circular_wait(schedule_);
    if (!circle.empty()) throw Error("{}: {}", name(), circle);
  }

 private:
  std::string name() const { return fmt::format("schedule {}", schedule_.name); }

  [[noreturn]] void fail(const Action& action, std::string_view what) const {
    throw Error("{}: rank {}, stage {}: {} of micro-batch {} {}", name(),
                rank_of(schedule_, action.stage), action.stage, name_of(action.operation),
                action.micro_batch, what);
  }

  std::int64_t number_of_actions() const {
    std::int64_t out = 0;
    for (const auto& actions : schedule_.actions) out += static_cast<std::int64_t>(actions.size());
    return out;
  }

  /// The product of stages and micro-batches is less than the number of actions from here on.
  void check_numbers() const {
    if (schedule_.micro_batches < 1 || schedule_.stages() < 1 || schedule_.ranks() < 1)
      throw Error("{}: it has {} ranks, {} stages and {} micro-batches; at least one of each",
                  name(), schedule_.ranks(), schedule_.stages(), schedule_.micro_batches);
    const std::int64_t count = number_of_actions();
    if (count > most_actions)
      throw Error("{}: it has {} actions; at most {}", name(), count, most_actions);
    if (schedule_.micro_batches > count / schedule_.stages())
      throw Error("{}: it has {} actions, too few for F of {} micro-batches in {} stages", name(),
                  count, schedule_.micro_batches, schedule_.stages());
  }

  void check_ranks() const {
    std::vector<bool> has_stage(schedule_.actions.size());
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      const int rank = rank_of(schedule_, stage);
      if (rank < 0 || rank >= schedule_.ranks())
        throw Error("{}: stage {} is on rank {}, but there are {} ranks", name(), stage, rank,
                    schedule_.ranks());
      has_stage[static_cast<std::size_t>(rank)] = true;
    }
    for (std::size_t rank = 0; rank < has_stage.size(); ++rank)
      if (!has_stage[rank]) throw Error("{}: rank {} has no stage", name(), rank);
  }

  // ---- where each action is

  std::int64_t& place(const Action& action) {
    const std::int64_t cell = action.stage * schedule_.micro_batches + action.micro_batch;
    return places_[static_cast<std::size_t>(action.operation)][static_cast<std::size_t>(cell)];
  }
  bool has(const Action& action) { return place(action) != nowhere; }

  void check_belongs(int rank, const Action& action) const {
    if (action.stage < 0 || action.stage >= schedule_.stages() || action.micro_batch < 0 ||
        action.micro_batch >= schedule_.micro_batches)
      throw Error("{}: rank {}: there is no {}: stages go to {}, micro-batches to {}", name(), rank,
                  text_of(action), schedule_.stages() - 1, schedule_.micro_batches - 1);
    if (rank_of(schedule_, action.stage) != rank)
      throw Error("{}: rank {} has {}, but stage {} is on rank {}", name(), rank, text_of(action),
                  action.stage, rank_of(schedule_, action.stage));
  }

  void check_actions() {
    const auto cells = static_cast<std::size_t>(schedule_.stages() * schedule_.micro_batches);
    for (auto& places : places_) places.assign(cells, nowhere);
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      std::int64_t at = 0;
      for (const Action& action : schedule_.actions[static_cast<std::size_t>(rank)]) {
        check_belongs(rank, action);
        if (has(action)) fail(action, "is there twice");
        place(action) = at++;
      }
    }
  }

  // ---- each stage

  void require(const Action& action) {
    if (!has(action)) fail(action, "is missing");
  }
  /// Both actions are there, and of one rank.
  void require_order(const Action& first, const Action& then) {
    if (place(then) < place(first))
      fail(then, fmt::format("comes before {}, which it needs", text_of(first)));
  }

  /// What does the backward whose results the optimizer needs: B, or else W.
  Action last_of(int stage, std::int64_t m) {
    const Action backward{stage, Operation::backward, m};
    return has(backward) ? backward : Action{stage, Operation::weight_gradient, m};
  }
  /// What makes the gradient for the stage before: B, or else I.
  Action input_gradient_of(int stage, std::int64_t m) {
    const Action backward{stage, Operation::backward, m};
    return has(backward) ? backward : Action{stage, Operation::input_gradient, m};
  }

  void check_backward(int stage, std::int64_t m) {
    const Action forward{stage, Operation::forward, m}, whole{stage, Operation::backward, m},
        input{stage, Operation::input_gradient, m}, weight{stage, Operation::weight_gradient, m};
    if (!has(whole) && !has(input) && !has(weight)) fail(whole, "is missing, and so are I and W");
    if (has(whole)) {
      if (has(input)) fail(input, "is there twice: B does it too");
      if (has(weight)) fail(weight, "is there twice: B does it too");
      require_order(forward, whole);
      return;
    }
    require(input);
    require(weight);
    require_order(forward, input);
    require_order(input, weight);
  }

  void check_stage(int stage) {
    for (std::int64_t m = 0; m < schedule_.micro_batches; ++m) {
      require({stage, Operation::forward, m});
      check_backward(stage, m);
      if (m == 0) continue;
      const Action before = last_of(stage, m - 1), now = last_of(stage, m);
      if (place(now) < place(before))
        fail(now, fmt::format("comes before {}: gradients add up in ascending order of "
                              "micro-batches",
                              text_of(before)));
    }
  }

  // ---- values between stages

  /// That what stage `stage` needs for micro-batch `m` is there before.
  void check_values(int stage, std::int64_t m) {
    if (stage > 0)
      check_value({stage - 1, stage, m}, {stage - 1, Operation::forward, m},
                  {stage, Operation::forward, m});
    if (stage + 1 < schedule_.stages())
      check_value({stage + 1, stage, m}, input_gradient_of(stage + 1, m),
                  input_gradient_of(stage, m));
  }

  void check_value(const Value& value, const Action& maker, const Action& user) {
    const Action send = send_of(value), receive = receive_of(value);
    if (!crosses(schedule_, value)) {
      for (const Action& action : {send, receive})
        if (has(action)) fail(action, "moves a value between stages of one rank; leave it out");
      require_order(maker, user);
    } else if (with_sends_) {
      require(send);
      require(receive);
      require_order(maker, send);
      require_order(receive, user);
    }
  }

  /// Actions of an operation in a stage, by their places.
  template <class ActionOf>
  std::vector<std::int64_t> order(int stage, ActionOf action_of) {
    std::map<std::int64_t, std::int64_t> by_place;
    for (std::int64_t m = 0; m < schedule_.micro_batches; ++m)
      by_place[place(action_of(stage, m))] = m;
    std::vector<std::int64_t> out;
    for (const auto& [at, m] : by_place) out.push_back(m);
    return out;
  }

  template <class ActionOf>
  void check_same_order(int from, int to, ActionOf action_of) {
    if (rank_of(schedule_, from) == rank_of(schedule_, to)) return;
    const auto makes = order(from, action_of), takes = order(to, action_of);
    for (std::size_t i = 0; i < makes.size(); ++i)
      if (makes[i] != takes[i])
        fail(action_of(to, takes[i]),
             fmt::format("comes before that of micro-batch {}, which stage {} on rank {} passes on "
                         "first; receives have to be in the order of sends",
                         makes[i], from, rank_of(schedule_, from)));
  }

  void check_order_between_stages() {
    const auto forward = [](int stage, std::int64_t m) {
      return Action{stage, Operation::forward, m};
    };
    const auto backward = [this](int stage, std::int64_t m) { return input_gradient_of(stage, m); };
    for (int stage = 0; stage + 1 < schedule_.stages(); ++stage) {
      check_same_order(stage, stage + 1, forward);
      check_same_order(stage + 1, stage, backward);
    }
  }

  /// Values that move between two ranks, in the order in which they are sent or received.
  using Channels = std::map<std::pair<int, int>, std::vector<Value>>;
  Channels channels(bool of_sends) const {
    Channels out;
    for (const auto& actions : schedule_.actions)
      for (const Action& action : actions) {
        const auto value = moved(schedule_, action);
        if (value && sends(action.operation) == of_sends)
          out[{rank_of(schedule_, value->from), rank_of(schedule_, value->to)}].push_back(*value);
      }
    return out;
  }

  /// Every value has one send and one receive.
  void check_order_of_receives() {
    for (std::size_t of = 0; of < operations; ++of) check_ends(static_cast<Operation>(of));
    const Channels sent = channels(true), received = channels(false);
    for (const auto& [ranks, values] : received)
      for (std::size_t i = 0; i < values.size(); ++i)
        if (const Value& first = sent.at(ranks)[i]; first != values[i])
          fail(receive_of(values[i]),
               fmt::format("comes before {}, but rank {} sends {} first",
                           text_of(receive_of(first)), ranks.first, text_of(send_of(first))));
  }

  /// No send leads out of the last stage, and no receive into the first one.
  void check_ends(Operation operation) {
    if (computes(operation)) return;
    for (const int stage : {0, schedule_.stages() - 1})
      for (std::int64_t m = 0; m < schedule_.micro_batches; ++m) {
        const Action action{stage, operation, m};
        if (has(action) && !moved(schedule_, action)) fail(action, "has no stage at its other end");
      }
  }

  const Schedule& schedule_;
  bool with_sends_;
  /// Of each operation, stage and micro-batch: the index among the actions of its rank.
  std::array<std::vector<std::int64_t>, operations> places_{};
};

}  // namespace

void check(const Schedule& schedule) { ScheduleCheck(schedule).run(); }

}  // namespace ringside::pipeline
