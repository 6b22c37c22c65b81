#include "experiments/runner/registry/registry.h"

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/scheme/independent.h"
#include "core/scheme/single.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/diloco.h"
#include "peer/schemes/dpsgd.h"
#include "peer/schemes/local_sgd.h"
#include "ps/schemes/dp.h"
#include "ps/schemes/ps.h"

namespace ringside::runner {
namespace {

std::vector<SchemeInfo> with_torch_rows(std::vector<SchemeInfo> rows) {
  for (SchemeInfo& row : torch_rows()) rows.push_back(std::move(row));
  return rows;
}

template <class Row>
const Row& find(const std::vector<Row>& rows, std::string_view what, std::string_view name) {
  std::vector<std::string> known;
  for (const Row& row : rows) {
    if (row.name == name) return row;
    known.emplace_back(row.name);
  }
  throw Error("unknown {} '{}'; did you mean '{}'? There are: {}", what, name, nearest(name, known),
              fmt::join(known, ", "));
}

}  // namespace

const std::vector<SchemeInfo>& scheme_rows() {
  static const std::vector<SchemeInfo> rows = with_torch_rows({
      single_info(),
      ps::dp_info(),
      ps::ps_info(),
      peer::ddp_info(),
      peer::fsdp_info(),
      peer::zero_info("zero1", "fsdp that shards optimizer state alone",
                      peer::Shard::shard_optimizer),
      peer::zero_info("zero2", "fsdp that shards optimizer state and gradients",
                      peer::Shard::shard_grad_op),
      peer::zero_info("zero3", "the same as fsdp with its default degree", peer::Shard::full_shard),
      peer::local_sgd_info(),
      peer::diloco_info(),
      peer::dpsgd_info(),
      independent_info(),
  });
  return rows;
}

const SchemeInfo& find_scheme(std::string_view name) { return find(scheme_rows(), "scheme", name); }
const DatasetRow& find_dataset(std::string_view name) {
  return find(dataset_rows(), "data set", name);
}
const DeviceRow& find_device(std::string_view name) { return find(device_rows(), "device", name); }
const FrameworkRow& find_framework(std::string_view name) {
  return find(framework_rows(), "framework", name);
}
const MessageRow& find_messages(std::string_view name) {
  return find(message_rows(), "library of messages", name);
}

Options default_options(const std::string& scheme) { return find_scheme(scheme).defaults; }

}  // namespace ringside::runner
