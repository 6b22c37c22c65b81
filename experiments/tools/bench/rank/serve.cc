#include "experiments/tools/bench/rank/serve.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/json_line.h"
#include "core/base/local_socket.h"
#include "core/base/seconds_now.h"
#include "core/base/utf8.h"

namespace ringside::tools::bench {
namespace {

/// How often a rank looks for failures in what it does beside, and how long it waits for its bench,
/// which listens before it starts ranks.
constexpr double look_every_s = 0.1, connect_timeout_s = 1;

nlohmann::json turn(BenchRank& rank, const std::string& way, int calls) {
  nlohmann::json times = nlohmann::json::array();
  if (!rank.is_timed()) return times;
  rank.begin_turn(way);
  for (int call = 0; call < calls; ++call) {
    rank.fill();
    rank.meet();
    const double begin = seconds_now();
    rank.call(way);
    const double end = seconds_now();
    rank.meet();
    times.push_back(begin);
    times.push_back(end);
  }
  return times;
}

nlohmann::json answer(BenchRank& rank, const nlohmann::json& command) {
  if (command.contains("array")) {
    rank.make_arrays(command["array"], command.at("count"));
    return {{"ready", true}};
  }
  if (command.contains("turn"))
    return {{"times", turn(rank, command["turn"], command.at("calls"))}};
  if (command.contains("check"))
    return {{"wrong", rank.is_timed() ? rank.count_wrong() : std::int64_t{0}}};
  throw Error("unknown command {}", command.dump());
}

}  // namespace

bool serve(const BenchLine& line, int rank, BenchRank& served) {
  line.say({{"hello", rank}, {"note", utf8_text(served.note())}});
  try {
    while (const auto command = line.hear(served.is_timed() ? -1 : look_every_s)) {
      if (command->contains("over")) return true;
      if (command->is_null())
        served.look();
      else
        line.say(answer(served, *command));
    }
    return true;
  } catch (const std::exception& error) {
    line.say({{"error", utf8_text(error_text(error))}});
    return false;
  }
}

bool serve(const std::string& bench, int rank, BenchRank& served) {
  const auto connected = [&] {
    try {
      return connect_to(bench, connect_timeout_s);
    } catch (const Error& error) {
      throw Error("{}; this program is started by `ringside bench comm --beside`", error.what());
    }
  };
  JsonLine line(connected());
  std::vector<nlohmann::json> heard;
  const auto hear = [&](double) -> std::optional<nlohmann::json> {
    while (heard.empty()) {
      auto values = line.receive();
      if (!values) return {};
      heard = std::move(*values);
    }
    nlohmann::json next = std::move(heard.front());
    heard.erase(heard.begin());
    return next;
  };
  return serve({hear, [&](const nlohmann::json& value) { line.send(value); }}, rank, served);
}

}  // namespace ringside::tools::bench
