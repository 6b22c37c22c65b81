// Ranks of `ringside bench` that have connected with it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json_line.h"
#include "core/launch/rank_host.h"

namespace ringside::tools::bench {

/// Ranks that others have started, and that have connected with this process.
class ConnectedRanks : public RankHost {
 public:
  /// A rank that sends nonsense, or does not read its messages for 1 s, is disconnected;
  /// `on_refused` gets a line about that, in which it has its name.
  explicit ConnectedRanks(std::vector<std::unique_ptr<JsonLine>> lines,
                          std::vector<std::string> names = {},
                          std::function<void(const std::string& cause)> on_refused = {});

  void start(const RunPlan& plan, int rank) override;
  void send(int rank, const nlohmann::json& value) override;
  void signal(int, int) override {}
  std::vector<int> files() const override;
  bool expects_end() const override { return !lost_.empty(); }
  void read(RankEvents& events) override;

 protected:
  /// The cause of the end of a rank whose line has ended.
  virtual std::string cause_of_end() { return "its connection is closed"; }
  bool connected() const;

 private:
  void cut_off(int rank, const std::string& cause);

  std::vector<std::unique_ptr<JsonLine>> lines_;  // null: has ended
  std::vector<std::string> names_;
  std::function<void(const std::string&)> on_refused_;
  std::vector<int> lost_;  // of which nobody has been told
  bool over_ = false;
};

}  // namespace ringside::tools::bench
