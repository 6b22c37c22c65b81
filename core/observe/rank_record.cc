#include "core/observe/rank_record.h"

namespace ringside {

Fields fields_of(StepTime& step) {
  Fields fields = {{"total", &step.total}};
  for (std::size_t a = 0; a < activities; ++a)
    fields.push_back({name_of(static_cast<Activity>(a)), &step.by_activity[a]});
  return fields;
}

Fields fields_of(MemoryUse& use) {
  Fields fields;
  for (std::size_t k = 0; k < memory_kinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    fields.push_back({name_of(kind), &use[kind]});
  }
  return fields;
}

Fields fields_of(DeviceMemory& memory) {
  return {
      {"reserved", &memory.reserved}, {"outside", &memory.outside}, {"capacity", &memory.capacity}};
}

Fields fields_of(HostMemory& memory) { return {{"at_peak", fields_of(memory.at_peak)}}; }

Fields fields_of(CheckpointCost& cost) {
  return {{"resumed_after", &cost.resumed_after},
          {"written", &cost.written},
          {"bytes", &cost.bytes},
          {"read_bytes", &cost.read_bytes},
          {"stall_s", &cost.stall_s},
          {"write_s", &cost.write_s},
          {"failure", &cost.failure},
          {"note", &cost.note}};
}

Fields fields_of(SchemeFigure& figure) {
  return {{"name", &figure.name}, {"unit", &figure.unit}, {"value", &figure.value}};
}

Fields fields_of(RankRecord::Evaluation& evaluation) {
  return {{"step", &evaluation.step},
          {"first", &evaluation.first},
          {"shares", Structs(&evaluation.shares)},
          {"seconds", &evaluation.seconds}};
}

Fields fields_of(LinkTimes& times) {
  return {{"gbs", &times.gbs},
          {"step_us", &times.step_us},
          {"collective_us_per_mb", &times.collective_us_per_mb},
          {"message_wall_us", &times.message_wall_us},
          {"message_us", &times.message_us},
          {"message_us_per_mb", &times.message_us_per_mb}};
}

Fields row_fields_of(RankRecord& r) {
  return {{"rank", &r.rank},
          {"role", &r.role},
          {"host", &r.host},
          {"bytes_sent_per_step", &r.bytes_sent_per_step},
          {"bytes_received_per_step", &r.bytes_received_per_step},
          {"bytes_computed", &r.bytes_computed},
          {"bytes_known", &r.bytes_known},
          {"minimum_bytes_per_step", &r.minimum_bytes_per_step},
          {"evaluation", Fields{{"seconds", &r.evaluation_s},
                                {"bytes_sent", &r.evaluation_bytes.sent},
                                {"bytes_received", &r.evaluation_bytes.received}}},
          {"serving_optimizer_ms", &r.serving_optimizer_ms},
          {"memory", Fields{{"at_peak", fields_of(r.at_peak)},
                            {"rss", &r.rss},
                            {"rss_of_peers", &r.rss_of_peers},
                            {"device", Structs(&r.device_memory)},
                            {"host", Structs(&r.host_memory)}}}};
}

Fields fields_of(RankRecord& r) {
  Fields fields = row_fields_of(r);
  for (Field& field : Fields{{"losses", &r.losses},
                             {"loss_places", &r.loss_places},
                             {"steps", Structs(&r.steps)},
                             {"skipped_steps", &r.skipped_steps},
                             {"processor_s", &r.processor_s},
                             {"tokens_per_sample", &r.tokens_per_sample},
                             {"parameters", &r.parameters},
                             {"work", Structs(&r.work)},
                             {"parameter_hashes", &r.parameter_hashes},
                             {"first_replica", &r.first_replica},
                             {"parameter_blocks", &r.parameter_blocks},
                             {"kept", &r.kept},
                             {"checkpoints", Structs(&r.checkpoints)},
                             {"pipeline", Structs(&r.pipeline)},
                             {"evaluations", Structs(&r.evaluations)},
                             {"staleness", Structs(&r.staleness)},
                             {"history", Structs(&r.history)},
                             {"figures", Structs(&r.figures)},
                             {"operations", Structs(&r.operations)},
                             {"pieces", Structs(&r.pieces)},
                             {"links", Structs(&r.links)},
                             {"slices", Structs(&r.slices)},
                             {"memory_samples", Structs(&r.memory)}})
    fields.push_back(std::move(field));
  return fields;
}

}  // namespace ringside
