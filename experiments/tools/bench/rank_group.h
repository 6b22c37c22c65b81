// The ranks of one library, as `ringside bench` controls them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch/rank_host.h"
#include "core/launch/store_server.h"
#include "experiments/tools/bench/rank/operations.h"

namespace ringside::tools::bench {

/// The most ranks of one bench on this host.
inline constexpr int most_processes = 64;

/// The deadlines of the bench for its ranks.
struct Patience {
  double timeout_s = 60;  // for each answer
  std::function<bool()> interrupted = [] { return false; };
};

/// Sends commands to all ranks of a group, by the messages of experiments/tools/bench/rank/serve.h,
/// and serves their store while it waits for answers. Every function blocks until all ranks have
/// answered. Throws Error that names group and rank as soon as a rank says that it failed or ends,
/// or when the time is over; no function may be called after that.
class RankGroup : private RankEvents {
 public:
  /// The `world` ranks of `host` have been started. Errors begin with `name`, which says the bench
  /// and the library ("bench comm: gloo"), and call the ranks by `ranks`; if it is empty, "rank 0"
  /// and so on.
  RankGroup(std::string name, std::unique_ptr<RankHost> host, int world, Patience patience,
            std::vector<std::string> ranks = {}, StoreLimits limits = {});
  /// Ends the ranks with their host, by force if close() has not been called.
  ~RankGroup() override = default;
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  void prepare(std::string_view operation, std::int64_t count);
  /// The time of each call, in microseconds from the moment when the last or the first rank begins
  /// to the moment when the last rank ends; or, for ranks whose clocks differ, the longest time of
  /// any rank from its own begin.
  enum class From : std::uint8_t { last_begin, first_begin, own_begin };
  std::vector<double> turn(const std::string& way, int calls, From from = From::last_begin);
  /// The note of a rank that has one (see serve.h); empty if none has.
  const std::string& note() const { return note_; }
  /// The number of wrong elements after the last call, of all ranks together.
  std::int64_t count_wrong();
  /// Lets the ranks end in good order. Blocks until they have ended, at most `timeout_s`; returns
  /// the names of those that have not.
  std::vector<std::string> close(double timeout_s = 2);

 private:
  struct Rank {
    std::string name;
    std::optional<nlohmann::json> answer{};
    std::string complaint{};
    std::optional<RankEnd> end{};
  };

  void line(int rank, const nlohmann::json& value) override;
  void output(int rank, const std::string& text) override;
  void ended(int rank, const RankEnd& end) override;

  void send_all(const nlohmann::json& command);
  /// The answers of all ranks to a command: each one's member `expected`. `said` is the command in
  /// errors.
  std::vector<nlohmann::json> ask(const nlohmann::json& command, const std::string& said,
                                  const std::string& expected);
  std::vector<nlohmann::json> answers(const std::string& said, const std::string& expected);
  /// Passes on what the ranks have said; waits for a moment if they say nothing.
  void listen();
  /// Throws Error if a rank has ended or says that it failed.
  void judge(const std::string& said);
  [[noreturn]] void give_up(const std::string& said) const;
  void name_ranks(const std::vector<std::string>& names);

  std::string name_;
  std::string note_;
  Patience patience_;
  std::vector<Rank> ranks_;
  StoreServer store_;
  std::unique_ptr<RankHost> host_;
};

}  // namespace ringside::tools::bench
