#include "core/plan/rank_plan.h"

namespace ringside {

Fields fields_of(RankPlan& rank) {
  return {{"rank", &rank.rank},     {"worker", &rank.worker},   {"server", &rank.server},
          {"device", &rank.device}, {"ordinal", &rank.ordinal}, {"environment", &rank.environment}};
}

/// Without the device, which only GPUs have: written and read apart.
Fields fields_of(RankHome& home) {
  return {{"host", &home.host}, {"address", &home.address}, {"agent", &home.agent}};
}

Fields fields_of(HostMemoryFile& file) {
  return {{"process", &file.process}, {"file", &file.file}, {"identity", &file.identity}};
}

std::string RankPlan::role() const {
  if (worker >= 0 && server >= 0) return "worker+server";
  return worker >= 0 ? "worker" : "server";
}

}  // namespace ringside
