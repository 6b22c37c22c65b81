#include "experiments/tools/chakra/trace_files.h"

#include <google/protobuf/util/delimited_message_util.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/whole_file.h"
#include "et_def.pb.h"

namespace ringside::tools::chakra {
namespace {

proto::CollectiveCommType type_of(const std::string& operation) {
  static constexpr std::pair<std::string_view, proto::CollectiveCommType> types[] = {
      {"all_reduce", proto::ALL_REDUCE},
      {"reduce_scatter", proto::REDUCE_SCATTER},
      {"all_gather", proto::ALL_GATHER},
      {"broadcast", proto::BROADCAST},
      {"all_to_all", proto::ALL_TO_ALL}};
  for (const auto& [name, type] : types)
    if (name == operation) return type;
  throw Error("Chakra traces have no collective {}", operation);
}

/// The number of a group in files; 0 is kept for all ranks.
int number_of(std::size_t group) { return static_cast<int>(group) + 1; }

/// The size of a collective as readers of traces expect it.
std::int64_t size_of(const Node& node, const Run& run) {
  if (node.operation != "all_gather") return node.bytes;
  const auto ranks = run.groups[static_cast<std::size_t>(node.group)].ranks.size();
  return node.bytes / static_cast<std::int64_t>(ranks);
}

/// The dtypes of attributes are those that Chakra's readers expect.
proto::Node message_of(const Node& node, const Run& run) {
  proto::Node out;
  out.set_id(static_cast<std::uint64_t>(node.id));
  out.set_name(node.name);
  out.set_type(node.is_collective() ? proto::COMM_COLL_NODE : proto::COMP_NODE);
  for (const std::int64_t id : node.after) out.add_data_deps(static_cast<std::uint64_t>(id));
  out.set_start_time_micros(static_cast<std::uint64_t>(node.start_us));
  out.set_duration_micros(static_cast<std::uint64_t>(node.duration_us));
  const auto attribute = [&out](const char* name) {
    proto::Attribute* added = out.add_attr();
    added->set_name(name);
    return added;
  };
  attribute("is_cpu_op")->set_bool_val(false);
  if (!node.is_collective()) return out;
  attribute("comm_type")->set_int64_val(type_of(node.operation));
  attribute("comm_size")->set_int64_val(size_of(node, run));
  attribute("pg_name")->set_string_val(
      std::to_string(number_of(static_cast<std::size_t>(node.group))));
  return out;
}

std::string file_of(const std::vector<Node>& nodes, const Run& run) {
  std::ostringstream out;
  proto::GlobalMetadata metadata;
  metadata.set_version("0.0.4");
  google::protobuf::util::SerializeDelimitedToOstream(metadata, &out);
  for (const Node& node : nodes)
    google::protobuf::util::SerializeDelimitedToOstream(message_of(node, run), &out);
  return out.str();
}

}  // namespace

void write_files(const Run& run, const std::filesystem::path& folder, const std::string& name) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error("folder {} cannot be made: {}; choose another with --chakra", folder.string(),
                error.message());
  const OpenFolder files(folder);
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank)
    write_whole(files, fmt::format("{}.{}.et", name, rank), file_of(run.ranks[rank], run));
  nlohmann::ordered_json groups = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < run.groups.size(); ++i)
    groups[std::to_string(number_of(i))] = run.groups[i].ranks;
  write_whole(files, fmt::format("{}.groups.json", name), groups.dump(2) + "\n");
}

}  // namespace ringside::tools::chakra
