#include "ps/protocol/consistency.h"

#include <limits>

namespace ringside::ps {
namespace {

class Bsp final : public Policy {
 public:
  std::int64_t most_ahead() const override { return 0; }
  bool may_read(std::int64_t number, std::int64_t version) const override {
    return version >= number;
  }
  bool values_rest() const override { return true; }
};

class Ssp final : public Policy {
 public:
  explicit Ssp(std::int64_t bound) : bound_(bound) {}
  std::int64_t most_ahead() const override { return bound_; }
  bool may_read(std::int64_t number, std::int64_t version) const override {
    return version >= number - bound_;
  }
  bool gradients_rest() const override { return false; }

 private:
  std::int64_t bound_;
};

class Asp final : public LocalAsp {
 public:
  bool may_skip() const override { return false; }
  std::int64_t updates_after(std::int64_t steps, int workers) const override {
    return steps * workers;
  }
};

/// A worker gives all its gradients of a step the newest version that it has read of any range as
/// their number. So the workers whose gradients made an update of one range make the same update of
/// every range, and no range waits for gradients that never come.
class Backup final : public Policy {
 public:
  explicit Backup(int gradients) : gradients_(gradients) {}
  std::int64_t most_ahead() const override { return std::numeric_limits<std::int64_t>::max(); }
  bool may_skip() const override { return true; }
  std::optional<std::int64_t> update_of(std::int64_t number, std::int64_t version) const override {
    if (number < version) return {};
    return number;
  }
  int gradients(int) const override { return gradients_; }
  bool may_read(std::int64_t number, std::int64_t version) const override {
    return version >= number;
  }

 private:
  int gradients_;
};

}  // namespace

std::int64_t LocalAsp::most_ahead() const { return std::numeric_limits<std::int64_t>::max(); }

std::optional<std::int64_t> Policy::update_of(std::int64_t number, std::int64_t) const {
  return number;
}

std::unique_ptr<Policy> make_policy(const ConsistencyRules& rules, int workers) {
  switch (rules.consistency) {
    case Consistency::asp:
      return std::make_unique<Asp>();
    case Consistency::easgd:
      return std::make_unique<LocalAsp>();
    case Consistency::ssp:
      if (rules.staleness_bound > 0) return std::make_unique<Ssp>(rules.staleness_bound);
      break;
    case Consistency::bsp:
      if (rules.backup_workers > 0) return std::make_unique<Backup>(workers - rules.backup_workers);
      break;
  }
  return std::make_unique<Bsp>();
}

}  // namespace ringside::ps
