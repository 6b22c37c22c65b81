#include "experiments/runner/registry/registry.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/row_list.h"
#include "core/scheme/independent.h"
#include "core/scheme/single.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/diloco.h"
#include "peer/schemes/dpsgd.h"
#include "peer/schemes/local_sgd.h"
#include "peer/schemes/onebit_adam.h"
#include "peer/schemes/sgp.h"
#include "ps/schemes/adpsgd.h"
#include "ps/schemes/async_diloco.h"
#include "ps/schemes/decoupled_diloco.h"
#include "ps/schemes/dp.h"
#include "ps/schemes/fedavg.h"
#include "ps/schemes/ps.h"

namespace ringside::runner {
namespace {

std::vector<SchemeInfo> with_torch_rows(std::vector<SchemeInfo> rows) {
  for (SchemeInfo& row : torch_rows()) rows.push_back(std::move(row));
  return rows;
}

RowList<SchemeInfo>& scheme_list() {
  static RowList<SchemeInfo> list(
      "scheme", with_torch_rows({
                    single_info(),
                    ps::dp_info(),
                    ps::ps_info(),
                    ps::fedavg_info(),
                    ps::async_diloco_info(),
                    ps::decoupled_diloco_info(),
                    peer::ddp_info(),
                    peer::fsdp_info(),
                    peer::zero_info("zero1", "fsdp that shards optimizer state alone",
                                    peer::Shard::shard_optimizer),
                    peer::zero_info("zero2", "fsdp that shards optimizer state and gradients",
                                    peer::Shard::shard_grad_op),
                    peer::zero_info("zero3", "the same as fsdp with its default degree",
                                    peer::Shard::full_shard),
                    peer::onebit_adam_info(),
                    peer::local_sgd_info(),
                    peer::diloco_info(),
                    peer::dpsgd_info(),
                    peer::sgp_info(),
                    ps::adpsgd_info(),
                    independent_info(),
                }));
  return list;
}

RowList<DatasetInfo>& dataset_list() {
  static RowList<DatasetInfo> list("data set", own_datasets());
  return list;
}

}  // namespace

const std::vector<SchemeInfo>& scheme_rows() { return scheme_list().rows(); }
const std::vector<DatasetInfo>& dataset_rows() { return dataset_list().rows(); }
void add_scheme(SchemeInfo row) {
  row.of_plugin = true;
  scheme_list().add(std::move(row));
}
void add_dataset(DatasetInfo row) { dataset_list().add(std::move(row)); }
const SchemeInfo& find_scheme(std::string_view name) {
  for (const SchemeInfo& row : scheme_rows())
    if (!name.empty() && row.former_name == name) return row;
  return scheme_list().find(name);
}
const SchemeInfo& scheme_to_run(std::string_view name) {
  const SchemeInfo& row = find_scheme(name);
  if (row.name != name)
    throw Error("scheme '{}' is now called '{}'; write that name", name, row.name);
  return row;
}
const DatasetInfo& find_dataset(std::string_view name) { return dataset_list().find(name); }
const DeviceRow& find_device(std::string_view name) {
  return find_row(device_rows(), "device", name);
}
const FrameworkRow& find_framework(std::string_view name) {
  return find_row(framework_rows(), "framework", name);
}
const MessageRow& find_messages(std::string_view name) {
  return find_row(message_rows(), "library of messages", name);
}

Options default_options(const std::string& scheme) { return find_scheme(scheme).defaults; }

}  // namespace ringside::runner
