#include "experiments/tools/cli/dmlc.h"

#include <charconv>
#include <string_view>

#include "core/base/error.h"

namespace ringside::tools::cli {
namespace {

class Variables {
 public:
  explicit Variables(const std::vector<std::string>& environment) : environment_(environment) {}

  std::optional<std::string> find(const std::string& name) const {
    for (const std::string& variable : environment_)
      if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
    return std::nullopt;
  }
  std::string at(const std::string& name) const {
    if (auto value = find(name)) return *value;
    throw Error("DMLC_ROLE is set, but {} is not; set both, or none of ps-lite's variables", name);
  }
  int number(const std::string& name) const {
    const std::string text = at(name);
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
      throw Error("{} = '{}' is no number", name, text);
    return value;
  }

 private:
  const std::vector<std::string>& environment_;
};

}  // namespace

std::optional<bench::PsJob> ps_job_of(const std::vector<std::string>& environment,
                                      const ps::Reach& reach) {
  const Variables variables(environment);
  const auto role = variables.find("DMLC_ROLE");
  if (!role) return std::nullopt;
  bench::PsJob job;
  if (const auto known = value_named<bench::PsRole>(*role))
    job.role = *known;
  else
    throw Error("DMLC_ROLE = '{}' is unknown; choose {}", *role, one_of(names_of(bench::PsRole{})));
  job.address = variables.at("DMLC_PS_ROOT_URI");
  if (job.address == "localhost") job.address = "127.0.0.1";
  job.port = variables.number("DMLC_PS_ROOT_PORT");
  job.workers = variables.number("DMLC_NUM_WORKER");
  job.servers = variables.number("DMLC_NUM_SERVER");
  if (job.role == bench::PsRole::worker && variables.find("DMLC_WORKER_ID"))
    job.worker = variables.number("DMLC_WORKER_ID");
  job.reach = reach;
  const auto node = variables.find("DMLC_NODE_HOST");
  if (node && job.role == bench::PsRole::server && !reach.keys.empty() && reach.address.empty())
    job.reach.address = *node;
  check(job);
  return job;
}

}  // namespace ringside::tools::cli
