// ringside bench ps
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/nearest.h"
#include "core/base/whole_file.h"
#include "experiments/tools/bench/ps_bench.h"
#include "experiments/tools/bench/ps_job.h"
#include "experiments/tools/cli/bench_arguments.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/job_start.h"
#include "experiments/tools/cli/output_files.h"

namespace ringside::tools::cli {
namespace {

/// The variables with which ps-lite and BytePS start workers, servers and schedulers.
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

/// The job that DMLC_ROLE (worker, server or scheduler), DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT,
/// DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_WORKER_ID and DMLC_NODE_HOST (both optional) describe;
/// none without DMLC_ROLE. `environment` are "NAME=value". The address in `reach` takes precedence
/// over DMLC_NODE_HOST. Throws Error that names the variable that is wrong or missing.
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

struct BenchPsArguments {
  std::vector<std::int64_t> workers, servers;
  std::vector<std::string> transports, consistencies;
  std::string placement = "dedicated";
  std::int64_t partition = 0;            // bytes; 0: by default
  std::string keys, address, advertise;  // of a process of a job
  std::int64_t threads = 1;
  BenchArguments bench;
};

void declare_bench_ps(CommandOptions& options, BenchPsArguments& arguments) {
  options.add("--workers", arguments.workers, "numbers of workers; default: 1").list().type("N,M");
  options.add("--servers", arguments.servers, "numbers of servers; default: 1").list().type("N,M");
  add_sizes(
      options, arguments.bench,
      "bytes of the array that every worker pushes and pulls, as in 64KB,1MB with 1 KB = 1024 "
      "bytes; default: 4KB to 64MB");
  options
      .add("--transports", arguments.transports,
           "as scheme.ps.transport (see `ringside list keys`); default: all")
      .list()
      .type("A,B");
  options
      .add("--consistencies", arguments.consistencies,
           "bsp, ssp or asp, as scheme.ps.consistency; default: bsp")
      .list()
      .type("A,B");
  options
      .add("--placement", arguments.placement,
           "dedicated: servers have processes of their own; colocated: they are in those of the "
           "first workers")
      .type("WHERE")
      .shows_default();
  options
      .add("--partition", arguments.partition,
           "the most bytes of the array in one message, as in 256KB; default: 1MB")
      .sizes()
      .type("SIZE");
  options
      .add("--keys", arguments.keys,
           "transport tcp with the keys of this folder, which `ringside keys` has written: "
           "messages are encrypted, and with DMLC_ROLE the processes may be of several hosts")
      .type("DIR");
  options
      .add("--address", arguments.address,
           "with DMLC_ROLE and --keys: the IPv4 address on which this server or scheduler listens; "
           "default: DMLC_NODE_HOST, or the one by which a server reaches the scheduler, "
           "DMLC_PS_ROOT_URI for the scheduler")
      .type("IP");
  options
      .add("--advertise", arguments.advertise,
           "the address to which workers connect, if it is not the one of --address")
      .type("IP");
  options.add("--threads", arguments.threads, "threads of a rank (device.threads)")
      .between(1, 1024)
      .type("N")
      .shows_default();
  add_measurement(options, arguments.bench, "way");
}

constexpr std::int64_t most_workers = 1 << 20;  // more than any host has

template <NamedEnum Enum>
Enum named(const char* option, const std::string& name) {
  if (const auto value = value_named<Enum>(name)) return *value;
  const EnumNames names = names_of(Enum{});
  throw Error("{} {}: unknown; did you mean '{}'? Choose {}", option, name,
              nearest(name, {names.begin(), names.end()}), one_of(names));
}

template <NamedEnum Enum>
std::vector<Enum> all_named(const char* option, const std::vector<std::string>& names) {
  std::vector<Enum> out;
  for (const std::string& name : names) {
    out.push_back(named<Enum>(option, name));
    if (std::count(out.begin(), out.end(), out.back()) > 1)
      throw Error("{}: {} is named twice; leave one out", option, name);
  }
  return out;
}

std::vector<int> numbers(const std::vector<std::int64_t>& asked) {
  std::vector<int> out;
  for (const std::int64_t number : asked)
    out.push_back(static_cast<int>(std::clamp<std::int64_t>(number, 0, most_workers)));
  return out.empty() ? std::vector<int>{1} : out;
}

bench::PsBench ps_bench_of(const BenchPsArguments& arguments, const Process& process) {
  using Transport = decltype(ps::PsOptions::transport);
  bench::PsBench bench;
  bench.workers = numbers(arguments.workers);
  bench.servers = numbers(arguments.servers);
  bench.sizes = arguments.bench.sizes;
  if (bench.sizes.empty())
    for (std::int64_t size = 4 << 10; size <= 64 << 20; size *= 4) bench.sizes.push_back(size);
  bench.transports = all_named<Transport>("--transports", arguments.transports);
  bench.keys = arguments.keys;
  if (bench.transports.empty() && !bench.keys.empty()) bench.transports = {Transport::tcp};
  if (bench.transports.empty())
    for (const std::string_view name : names_of(Transport{}))
      if (const Transport one = *value_named<Transport>(name); one != Transport::automatic)
        bench.transports.push_back(one);
  bench.consistencies = all_named<ps::Consistency>("--consistencies", arguments.consistencies);
  if (bench.consistencies.empty()) bench.consistencies = {ps::Consistency::bsp};
  for (const ps::Consistency one : bench.consistencies)
    if (one == ps::Consistency::easgd)
      throw Error(
          "--consistencies easgd: its workers push values, and servers add no gradients up; choose "
          "bsp, ssp or asp");
  bench.placement = named<ps::Placement>("--placement", arguments.placement);
  bench.threads = static_cast<int>(arguments.threads);
  bench.rounds = static_cast<int>(arguments.bench.rounds);
  if (arguments.partition != 0) bench.partition_bytes = arguments.partition;
  bench.timeout_s = arguments.bench.timeout_s;
  bench.program = {process.program, {"rank"}, process.environment};
  bench.interrupted = process.interrupted;
  return bench;
}

/// A job's environment says how many workers and servers there are; all are processes of their own.
void take_numbers(const bench::PsJob& job, const BenchPsArguments& arguments,
                  bench::PsBench& bench) {
  if (!arguments.workers.empty() || !arguments.servers.empty())
    throw Error(
        "--workers and --servers: DMLC_NUM_WORKER and DMLC_NUM_SERVER say how many there are, "
        "since DMLC_ROLE is set; leave one or the other out");
  if (bench.placement != ps::Placement::dedicated)
    throw Error("--placement {}: the servers of a job (DMLC_ROLE) have processes of their own",
                name_of(bench.placement));
  bench.one_host = job.reach.keys.empty();
  bench.workers = {job.workers};
  bench.servers = {job.servers};
}

/// Every way has sockets of its own; servers keep half of the files for newcomers
/// (ps/transport/zmq/listener.h).
void check_open_files(const bench::PsBench& bench, std::int64_t of_the_scheduler) {
  constexpr std::int64_t of_a_process = 64, of_a_way = 16, of_a_connection = 2;
  const auto most = [](const std::vector<int>& numbers) {
    return *std::max_element(numbers.begin(), numbers.end());
  };
  const auto ways = std::ssize(bench.transports) * std::ssize(bench.consistencies);
  const std::int64_t connections = most(bench.workers) + most(bench.servers);
  const std::int64_t needed =
      2 * (of_a_process +
           std::max(of_the_scheduler, ways * (of_a_way + of_a_connection * connections)));
  const std::int64_t allowed = raise_the_limit_of_open_files();
  if (allowed < needed)
    throw Error(
        "a process of this bench may open {} files, of which {} are allowed; raise `ulimit -Hn`, "
        "or measure fewer transports, consistencies, workers or servers at once",
        needed, allowed);
}

void say(const std::string& text) { fmt::print(stderr, "ringside: bench ps: {}\n", text); }

void say_listening(const bench::PsJob& job, int port) {
  fmt::print(stderr,
             "ringside: bench ps: the scheduler waits for {} worker{} and {} server{} at "
             "{}:{}\n",
             job.workers, job.workers == 1 ? "" : "s", job.servers, job.servers == 1 ? "" : "s",
             job.address, port);
}

int bench_ps(const BenchPsArguments& arguments, const Process& process) {
  bench::PsBench bench;
  std::optional<bench::PsJob> job;
  try {
    check_readable(process);
    job = ps_job_of(process.environment, {arguments.address, arguments.advertise, arguments.keys});
    if (job)
      job->program = process.built_commit;
    else
      check_alone("bench ps", "start it without the launcher, or set DMLC_ROLE in each process",
                  process);
    if (!job || job->reach.keys.empty())
      for (const auto& [option, value] :
           {std::pair("--address", arguments.address), {"--advertise", arguments.advertise}})
        if (!value.empty())
          throw Error("{} {}: only for a process of a job (DMLC_ROLE) with --keys", option, value);
    bench = ps_bench_of(arguments, process);
    if (job) take_numbers(*job, arguments, bench);
    check_output("--json", arguments.bench.json);
    check(bench);
    check_open_files(bench, job && job->role == bench::PsRole::scheduler
                                ? bench::open_files_of_scheduler(*job)
                                : 0);
  } catch (const std::exception& error) {
    return complain(wrong_input, error_text(error));
  }
  if (job && job->role != bench::PsRole::scheduler) join_ps_job(*job, bench.timeout_s, say);
  std::vector<bench::PsRow> rows;
  std::cout << bench::heading_of_ps_rows() << std::flush;
  process.catch_interrupts();
  const auto report = [&](const bench::PsRow& row) {
    std::cout << text_of(row) << std::flush;
    rows.push_back(row);
  };
  try {
    if (job)
      bench::lead_ps_job(*job, bench,
                         {.on_listening = [&](int port) { say_listening(*job, port); },
                          .on_refused = say,
                          .on_row = report});
    else
      bench::run_ps_bench(bench, report);
  } catch (const std::exception& error) {
    if (process.interrupted()) return complain(was_interrupted, "bench ps: interrupted");
    return complain(run_failed, error_text(error));
  }
  std::cout << bench::notes_of(rows);
  nlohmann::ordered_json json = {{"results", nlohmann::json::array()}};
  for (const bench::PsRow& row : rows) json["results"].push_back(to_json(row));
  if (!arguments.bench.json.empty()) write_whole(arguments.bench.json, json.dump(2) + "\n");
  const bool wrong = std::any_of(rows.begin(), rows.end(),
                                 [](const bench::PsRow& row) { return row.wrong.value_or(0) > 0; });
  return wrong ? run_failed : ok;
}

}  // namespace

Execute bench_ps_command(CommandOptions& options) {
  options.summary(
      "push and pull through parameter servers by size, workers, servers, transport and "
      "consistency, between processes of this machine, in the columns of nccl-tests; with "
      "DMLC_ROLE set to worker, server or scheduler, as one process of ps-lite's environment");
  options.uses_cores();
  const auto arguments = std::make_shared<BenchPsArguments>();
  declare_bench_ps(options, *arguments);
  return [arguments](const Process& process) { return bench_ps(*arguments, process); };
}

}  // namespace ringside::tools::cli
