#include "peer/comm/sim/mesh_rings.h"

#include <algorithm>
#include <cstdint>

#include "peer/comm/sim/routes.h"

namespace ringside::peer {
namespace {

using Ring = std::vector<int>;

/// Looks for the most rings through all ranks of which no two share a link.
class Search {
 public:
  Search(const sim::ClusterSpec& cluster, const std::vector<sim::Place>& places)
      : size_(static_cast<int>(places.size())) {
    std::int64_t fewest = most_hops_;
    for (const sim::Place& a : places) {
      std::int64_t degree = 0;
      std::vector<std::int64_t>& row = links_.emplace_back();
      for (const sim::Place& b : places) degree += row.emplace_back(links_between(cluster, a, b));
      fewest = std::min(fewest, degree);
    }
    most_ = static_cast<std::size_t>(size_ == 2 ? fewest : fewest / 2);
  }

  std::vector<Ring> run() {
    add_ring();
    return best_;
  }

 private:
  std::int64_t& links(int a, int b) {
    return links_[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
  }
  void use(int a, int b, std::int64_t count) {
    links(a, b) -= count;
    links(b, a) -= count;
  }
  bool over() const { return best_.size() == most_ || hops_ > most_hops_; }

  void add_ring() {
    if (found_.size() > best_.size()) best_ = found_;
    if (over()) return;
    found_.push_back({0});
    extend();
    found_.pop_back();
  }

  /// Tries every way to go on with the last ring.
  void extend() {
    const int last = found_.back().back();
    if (static_cast<int>(found_.back().size()) == size_) {
      // Two ranks send each other over the two directions of one link.
      const bool closes = size_ > 2;
      if (closes && links(last, 0) == 0) return;
      if (closes) use(last, 0, 1);
      add_ring();
      if (closes) use(last, 0, -1);
      return;
    }
    for (int next = 1; next < size_ && !over(); ++next) {
      const Ring& ring = found_.back();
      if (links(last, next) == 0 || std::find(ring.begin(), ring.end(), next) != ring.end())
        continue;
      ++hops_;
      use(last, next, 1);
      found_.back().push_back(next);
      extend();
      found_.back().pop_back();
      use(last, next, -1);
    }
  }

  static constexpr std::int64_t most_hops_ = 1'000'000;
  const int size_;
  std::size_t most_ = 0;
  std::vector<std::vector<std::int64_t>> links_;  // how many between two ranks are not used yet
  std::vector<Ring> found_, best_;
  std::int64_t hops_ = 0;
};

}  // namespace

std::vector<std::vector<int>> rings_in_mesh(const sim::ClusterSpec& cluster,
                                            const std::vector<sim::Place>& places) {
  if (cluster.topology != sim::Topology::mesh || places.size() < 2) return {};
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i].machine != places[0].machine || !has_device(places[i]) ||
        std::find(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(i), places[i]) !=
            places.begin() + static_cast<std::ptrdiff_t>(i))
      return {};
  std::vector<Ring> rings = Search(cluster, places).run();
  if (places.size() == 2) return rings;
  for (std::size_t i = 0, one_way = rings.size(); i < one_way; ++i)
    rings.emplace_back(rings[i].rbegin(), rings[i].rend());
  return rings;
}

}  // namespace ringside::peer
