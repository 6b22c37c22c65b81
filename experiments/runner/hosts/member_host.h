// The ranks that one process of a job starts, with or without an MPI world.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/json_line.h"
#include "core/launch/local_host.h"
#include "experiments/runner/hosts/host_commands.h"
#include "experiments/runner/hosts/local_socket.h"

namespace ringside {

/// A library of MPI finds the others of its world by what the daemon of MPI's launcher on its host
/// has told it. Where ranks are members of such a world, the daemon starts a stand-in for each
/// (stand_in.h). The stand-in hands over what it was told, and stays until its rank has ended well.
/// The rank is a process of this host as any other, started once its stand-in has come.
///
/// What the leader tells (RankHost::tell): {"world": {"name", "folder", "stay"}} before ranks of a
/// world are started (stay: no stand-in ends before the world does); {"command": number, "text"}
/// and {"end": number}: commands of the launcher of MPI; and
/// {"world": null}, after which nothing of the world is left. What it is told: {"came": rank},
/// {"gone": rank} for a stand-in that ends before its rank, {"command", "output"}, {"command",
/// "status"}, and {"left": true} when nothing is left.
class MemberHost : public RankHost {
 public:
  /// `address` is the one of this process's ranks.
  MemberHost(RankProgram program, std::string address);
  ~MemberHost() override;

  void start(const RunPlan& plan, int rank) override;
  void send(int rank, const nlohmann::json& value) override { ranks_.send(rank, value); }
  void signal(int rank, int number) override;
  void tell(const nlohmann::json& value) override;
  std::vector<int> files() const override;
  bool expects_end() const override { return ranks_.expects_end(); }
  void read(RankEvents& events) override;

 private:
  /// A rank of a world whose stand-in has not come, or has not yet said all.
  struct Awaited {
    RunPlan plan;
    LocalListener listener;
    std::unique_ptr<JsonLine> stand_in{};
    int file = -1;
  };
  struct World {
    std::string name, folder;
    bool stay = false;
    std::map<int, std::unique_ptr<Awaited>> awaited{};
    std::map<int, std::unique_ptr<JsonLine>> stand_ins{};  // of ranks that have been started
  };
  class Ends;

  void begin_world(const nlohmann::json& world);
  void end_world();
  /// Goes on with an awaited rank; returns whether it needs to be awaited no more.
  bool meet(int rank, Awaited& awaited, RankEvents& events);
  void start_member(int rank, const Awaited& awaited, const std::vector<std::string>& told);
  void read_world(RankEvents& events);

  RankProgram program_;
  std::string address_;
  LocalHost ranks_;
  std::optional<World> world_;
  HostCommands commands_;
  std::vector<nlohmann::json> news_;            // for the leader
  std::vector<std::pair<int, RankEnd>> ended_;  // ranks that were never started
};

}  // namespace ringside
