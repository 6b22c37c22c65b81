// A group of workers that add up their gradients before they push the sum.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/sums.h"
#include "core/scheme/replica.h"

namespace ringside::ps {

/// Elements [begin, begin + count) of a unit.
struct UnitPart {
  std::int64_t begin = 0, count = 0;
};
/// The part of a unit with `count` elements that a member of a group pushes and pulls. All parts
/// have count / group elements, rounded down, and the last one also has those that are left over.
UnitPart part_of(std::int64_t count, int group, int member);

/// The order in which `workers` workers in groups of `group` add up `count` elements: in rank order
/// within each group, and then the sums of the groups in their order.
Sum sum_over_groups(std::int64_t count, int workers, int group);

/// G consecutive workers, such as those of one machine, which the servers see as one worker
/// (BytePS; Jiang et al., OSDI 2020, section 4.2; MXNet's dist_device_sync). A unit's gradients are
/// reduce-scattered within the group, in place, so that every member holds the sum of its part;
/// with new values of all parts, the unit's parameters are all-gathered, in place too. Each of the
/// two sends (G - 1) / G times the unit's bytes from every worker. The remainder of a division by
/// G, fewer than G elements of a unit, is all-reduced and broadcast by itself.
class SumGroup {
 public:
  /// `size` divides the number of workers. Collective: blocks until the workers of this group have
  /// called it. All arguments outlive this object.
  SumGroup(const RankContext& context, const Model& model, Replica& replica, int size);

  /// One exchange of a unit within the group. It must not outlive the group.
  class Exchange {
   public:
    bool ready() const;
    /// Does what wait_exposed() does. Afterwards the exchange is over.
    void wait(Timeline& timeline);
    explicit operator bool() const { return !works_.empty(); }

   private:
    friend class SumGroup;
    std::string name_;
    std::vector<WorkPtr> works_;
  };
  /// Members call these functions in the same order. Neither blocks. While a gradient is added up
  /// it must not change, and afterwards all of it but this member's part has lost its meaning.
  /// While values are gathered, the unit's parameters must not be used.
  Exchange add_up(std::size_t unit);
  Exchange gather(std::size_t unit);

  Traffic traffic() const { return communicator_->traffic(); }

 private:
  void begin(Exchange& exchange, const std::function<WorkPtr()>& operation);

  Timeline& timeline_;
  const Model& model_;
  Replica& replica_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace ringside::ps
