#include "core/train/table_links.h"

#include <algorithm>

#include "core/scheme/exposed.h"

namespace ringside {

TableLinks::TableLinks(const RankContext& context, const Model& model)
    : context_(context), model_(model), group_(*context.pipeline) {
  for (std::size_t e = 0; e < model.edges.size(); ++e) {
    const Edge& edge = model.edges[e];
    Table table{.edge = e,
                .parameter = edge.parameter,
                .owner = group_.stage_of_unit(edge.from),
                .reader = group_.stage_of_unit(edge.last)};
    if (edge.kind != Edge::Kind::table || table.owner == table.reader) continue;
    const int owner = group_.rank_of_unit(edge.from), reader = group_.rank_of_unit(edge.last);
    group_.connect(group_.tables(), owner, reader);
    group_.connect(group_.tables(), reader, owner);
    table.shape = model.part->tables[e];
    table.is_owner = owner == group_.rank();
    table.is_reader = reader == group_.rank();
    if (table.is_owner)
      table.unit = static_cast<std::size_t>(std::ranges::find(model.part->units, edge.from) -
                                            model.part->units.begin());
    if (table.is_owner || table.is_reader) tables_.push_back(table);
  }
}

void TableLinks::begin_pass() {
  for (Table& table : tables_) {
    table.current = false;
    table.values = {};
  }
}

/// The values are copied, as parameters may lie where other ranks cannot reach them, and may be
/// freed as soon as their unit has computed.
void TableLinks::bound(std::size_t unit) {
  for (Table& table : tables_) {
    if (!table.is_owner || table.unit != unit || table.current) continue;
    table.current = true;
    const Tensor values = model_.units[unit]->value(table.parameter);
    const Tensor copy =
        context_.device.tensor(values.shape(), MemoryKind::communication, values.dtype());
    context_.device.kernels().copy({.in = values, .out = copy});
    send(copy, table.reader);
  }
}

void TableLinks::take_values(int stage, SideValues& side) {
  for (Table& table : tables_) {
    if (!table.is_reader || table.reader != stage) continue;
    if (!table.values)
      table.values = receive(table.shape, MemoryKind::communication, table.owner, "table");
    side[table.edge].value = table.values;
  }
}

void TableLinks::send_gradients(int stage, SideValues& side) {
  for (const Table& table : tables_)
    if (table.is_reader && table.reader == stage)
      send(std::exchange(side[table.edge].gradient, {}), table.owner);
}

void TableLinks::take_gradients(int stage, SideValues& side) {
  for (const Table& table : tables_)
    if (table.is_owner && table.owner == stage)
      side[table.edge].gradient =
          receive(table.shape, MemoryKind::gradient, table.reader, "gradient of the table");
}

void TableLinks::drop(const std::function<bool(int stage)>& was_sent) {
  for (const Table& table : tables_)
    if (table.is_reader && !table.values && was_sent(table.owner))
      receive(table.shape, MemoryKind::communication, table.owner, "table that is dropped");
  finish_sends();
}

void TableLinks::finish_sends() {
  for (; !sent_.empty(); sent_.pop_front())
    wait_exposed(context_.timeline, "table", std::move(sent_.front().work));
}

void TableLinks::send(const Tensor& value, int to_stage) {
  const int to = group_.schedule().ranks_of[static_cast<std::size_t>(to_stage)];
  while (!sent_.empty() && sent_.front().work->ready()) {
    wait_exposed(context_.timeline, "table", std::move(sent_.front().work));
    sent_.pop_front();
  }
  sent_.push_back({value, group_.tables().send(value, to)});
}

Tensor TableLinks::receive(Shape shape, MemoryKind kind, int from_stage, const char* what) {
  const int from = group_.schedule().ranks_of[static_cast<std::size_t>(from_stage)];
  const Tensor out = context_.device.tensor(shape, kind, parameter_dtype(context_.plan.train));
  wait_exposed(context_.timeline, what, group_.tables().recv(out, from));
  return out;
}

}  // namespace ringside
