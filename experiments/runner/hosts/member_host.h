// The ranks that one process of a job starts, with or without an MPI world.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json_line.h"
#include "core/base/local_socket.h"
#include "core/launch/local_host.h"
#include "core/launch/subprocess_group.h"

namespace ringside::runner {

/// An MPI library finds the other processes of its world through variables and files that the
/// launcher's daemon on its host passes to it. For ranks in such a world the daemon starts a shim
/// for each (mpi_launch_shim.h). The shim passes these on to this object, and stays until its rank
/// has ended well. The rank itself is an ordinary process of this host, started once its shim has
/// connected.
///
/// Messages of the leader (RankHost::tell): {"world": {"name", "folder", "stay"}} before ranks of a
/// world are started (stay: no shim ends before the world does); {"command": number, "text"} and
/// {"end": number}: commands of MPI's launcher, which run in a shell, in the folder; and {"world":
/// null}, which removes all of the world. Messages to the leader: {"came": rank}, {"gone": rank}
/// for a shim that ends before its rank, {"command", "output"}, {"command", "status"}, and {"left":
/// true} when nothing is left.
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
  /// A rank of a world whose shim has not connected, or has not yet passed everything on.
  struct Awaited {
    RunPlan plan;
    LocalListener listener;
    std::unique_ptr<JsonLine> shim{};
    int file = -1;
  };
  struct World {
    std::string name, folder;
    bool stay = false;
    std::map<int, std::unique_ptr<Awaited>> awaited{};
    std::map<int, std::unique_ptr<JsonLine>> shims{};  // of ranks that have been started
  };
  class Ends;

  void begin_world(const nlohmann::json& world);
  void run_command(int command, const std::string& text);
  void end_world();
  /// Continues with an awaited rank; returns whether the wait is over.
  bool meet(int rank, Awaited& awaited, RankEvents& events);
  void start_member(int rank, const Awaited& awaited, const std::vector<std::string>& told);
  void read_world(RankEvents& events);

  RankProgram program_;
  std::string address_;
  LocalHost ranks_;
  std::optional<World> world_;
  std::map<int, std::unique_ptr<SubprocessGroup>> commands_;
  std::vector<nlohmann::json> news_;            // for the leader
  std::vector<std::pair<int, RankEnd>> ended_;  // ranks that were never started
};

}  // namespace ringside::runner
