#include "experiments/tools/bench/ps_rank.h"

#include <fmt/format.h>

#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"

namespace ringside::tools::bench {
namespace {

/// A part of a store, whose keys nobody else uses.
class PartOfStore : public Store {
 public:
  PartOfStore(Store& whole, int number) : whole_(whole), number_(number) {}
  void set(const std::string& key, const std::string& value) override {
    whole_.set(place_of(key), value);
  }
  std::string get(const std::string& key, double timeout_s) override {
    return whole_.get(place_of(key), timeout_s);
  }
  std::optional<std::string> try_get(const std::string& key) override {
    return whole_.try_get(place_of(key));
  }

 private:
  std::string place_of(const std::string& key) const { return fmt::format("{}/{}", number_, key); }

  Store& whole_;
  int number_;
};

}  // namespace

PsRank::PsRank(const PsRoles& roles, Links links, Store& store, std::optional<SpinBarrier> barrier)
    : roles_(roles),
      links_(std::move(links)),
      store_(store),
      barrier_(std::move(barrier)),
      device_(make_cpu_device(roles.threads)) {}

void PsRank::make_arrays(const std::string& operation, std::int64_t count) {
  current_ = nullptr;
  ways_.clear();
  std::istringstream names(operation);
  for (std::string name; std::getline(names, name, ',');) {
    ps::PsOptions way = ps_way_named(name);
    way.servers = roles_.servers;
    way.placement = roles_.placement;
    way.partition_mb = static_cast<double>(roles_.partition_bytes) / 1e6;
    std::unique_ptr<PsWay>& made = ways_[name];
    made = std::make_unique<PsWay>(roles_, way, count, *device_, links_,
                                   std::make_unique<PartOfStore>(store_, connections_++));
    if (roles_.works()) made->connect();
  }
}

void PsRank::look() {
  for (const auto& [name, way] : ways_) way->check_server();
}

void PsRank::begin_turn(const std::string& way) {
  look();
  const auto found = ways_.find(way);
  if (found == ways_.end()) throw Error("no way of the name '{}'", way);
  current_ = found->second.get();
}

void PsRank::meet() {
  if (barrier_)
    barrier_->meet();
  else
    current_->meet();
}

}  // namespace ringside::tools::bench
