#include "core/train/table_links.h"

#include <algorithm>

#include "core/pipeline/values.h"
#include "core/scheme/exposed.h"

namespace ringside {

TableLinks::TableLinks(const RankContext& context, const Model& model)
    : context_(context), model_(model), group_(*context.pipeline) {
  const pipeline::Schedule& schedule = group_.schedule();
  for (const BorderTable& of : group_.borders().tables) {
    Table table{.of = of,
                .owner = rank_of(schedule, of.stages.owner),
                .reader = rank_of(schedule, of.stages.reader)};
    group_.connect(group_.tables(), table.owner, table.reader);
    group_.connect(group_.tables(), table.reader, table.owner);
    if (table.owner == group_.rank()) {
      const auto& units = model.part->units;
      table.unit =
          static_cast<std::size_t>(std::ranges::find(units, of.unit) - model.part->units.begin());
      const auto& begins = model.part->stages;
      const auto behind = std::ranges::upper_bound(begins, table.unit);
      table.units = table.unit + 1 - *(behind - 1);
      table.places = table_places(schedule, of.stages);
    }
    if (table.owner == group_.rank() || table.reader == group_.rank())
      tables_.push_back(std::move(table));
  }
}

bool TableLinks::is_owners(const Table& table, int stage) const {
  return table.of.stages.owner == stage && table.owner == group_.rank();
}

bool TableLinks::is_readers(const Table& table, int stage) const {
  return table.of.stages.reader == stage && table.reader == group_.rank();
}

void TableLinks::begin_pass() {
  for (Table& table : tables_) {
    table.current = false;
    table.values = {};
    table.received = 0;
  }
}

/// The values are copied, as parameters may lie where other ranks cannot reach them, and may be
/// freed as soon as their unit has computed.
void TableLinks::bound(std::size_t unit) {
  for (Table& table : tables_) {
    if (table.owner != group_.rank() || table.unit != unit || table.current) continue;
    table.current = true;
    const Tensor values = model_.units[unit]->value(table.of.parameter);
    const Tensor copy =
        context_.device.tensor(values.shape(), MemoryKind::communication, values.dtype());
    context_.device.kernels().copy({.in = values, .out = copy});
    if (table.is_here())
      table.values = copy;
    else
      send(copy, table.reader);
  }
}

void TableLinks::take_values(int stage, SideValues& side) {
  for (Table& table : tables_) {
    if (!is_readers(table, stage)) continue;
    if (!table.values) table.values = receive_values(table, "table");
    side[table.of.edge].value = table.values;
  }
}

TableLinks::Rest TableLinks::rest_of(int stage, std::int64_t micro_batch) const {
  Rest out;
  for (const Table& table : tables_) {
    if (!is_owners(table, stage)) continue;
    const pipeline::TablePlace& place = table.places[static_cast<std::size_t>(micro_batch)];
    out.units = std::max(out.units, table.units);
    out.is_late |= place.is_late();
    out.before = std::max(out.before, place.before);
  }
  return out;
}

void TableLinks::send_gradients(int stage, SideValues& side) {
  for (Table& table : tables_) {
    if (!is_readers(table, stage)) continue;
    Tensor gradient = std::exchange(side[table.of.edge].gradient, {});
    if (table.is_here())
      table.made.push_back(std::move(gradient));
    else
      send(gradient, table.owner);
  }
}

void TableLinks::receive_gradients(int stage) {
  for (Table& table : tables_)
    if (is_owners(table, stage) && !table.is_here()) receive_gradient(table);
}

void TableLinks::receive_gradient(Table& table) {
  if (table.work || table.received == group_.schedule().micro_batches) return;
  ++table.received;
  table.gradient = new_table(table, MemoryKind::gradient);
  table.work = group_.tables().recv(table.gradient, table.reader);
}

void TableLinks::take_gradients(int stage, SideValues& side) {
  for (Table& table : tables_) {
    if (!is_owners(table, stage)) continue;
    Tensor& gradient = side[table.of.edge].gradient;
    if (table.is_here()) {
      gradient = std::move(table.made.front());
      table.made.pop_front();
      continue;
    }
    receive_gradient(table);
    wait_exposed(context_.timeline, "gradient of the table", std::move(table.work));
    gradient = std::exchange(table.gradient, {});
  }
}

void TableLinks::drop(const std::function<bool(int stage)>& was_sent) {
  for (const Table& table : tables_)
    if (table.reader == group_.rank() && !table.values && !table.is_here() &&
        was_sent(table.of.stages.owner))
      receive_values(table, "table that is dropped");
  finish_sends();
}

void TableLinks::finish_sends() {
  for (; !sent_.empty(); sent_.pop_front())
    wait_exposed(context_.timeline, "table", std::move(sent_.front().work));
}

void TableLinks::send(const Tensor& value, int to) {
  while (!sent_.empty() && sent_.front().work->ready()) {
    wait_exposed(context_.timeline, "table", std::move(sent_.front().work));
    sent_.pop_front();
  }
  sent_.push_back({value, group_.tables().send(value, to)});
}

Tensor TableLinks::new_table(const Table& table, MemoryKind kind) const {
  return context_.device.tensor(table.of.shape, kind, parameter_dtype(context_.plan.train));
}

Tensor TableLinks::receive_values(const Table& table, const char* what) {
  const Tensor out = new_table(table, MemoryKind::communication);
  wait_exposed(context_.timeline, what, group_.tables().recv(out, table.owner));
  return out;
}

}  // namespace ringside
