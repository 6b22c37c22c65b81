// Double binary tree, for an array of S bytes on p ranks (Sanders, Speck and Traff 2009; NCCL uses
// such trees since 2.4): one half of the array is summed up along one tree to its root and goes
// back down, the other half along a second tree. A rank inside one tree is a leaf of the other (but
// for one rank, if p is odd), so all ranks send about 2 * S. The halves move in k blocks, one
// behind the other: with trees of height h, an all-reduce costs k + 2 * h - 1 steps, and h is about
// log2 p. It has no reduce-scatter and no all-gather of its own; those of the ring take their
// place.
#include <algorithm>

#include "peer/comm/algorithms/algorithms.h"
#include "peer/comm/part.h"

namespace ringside::peer {
namespace {

constexpr int none = -1;
constexpr std::int64_t smallest_block = 16 * 1024, most_blocks = 64;

/// A binary tree through ranks 0 to p - 1. In the first tree all even ranks are leaves; in the
/// second tree all odd ranks are.
class Tree {
 public:
  Tree(int ranks, bool second) : ranks_(ranks), second_(second) {
    for (int r = 0; r < ranks; ++r) height_ = std::max(height_, depth(r));
  }

  int height() const { return height_; }
  int depth(int rank) const {
    const int up = parent(rank);
    return up == none ? 0 : 1 + depth(up);
  }
  int parent(int rank) const {
    // Node i = 1, 2, ... has as many levels below it as i has zero bits at its end. Nodes above p
    // are missing; their children belong to the next node on the way up that is there.
    int node = position(rank) + 1;
    if (node == largest_power()) return none;
    do {
      const int lowest = node & -node;
      node = (node & (2 * lowest)) != 0 ? node - lowest : node + lowest;
    } while (node > ranks_);
    return rank_at(node - 1);
  }
  std::vector<int> children(int rank) const {
    std::vector<int> out;
    for (int r = 0; r < ranks_; ++r)
      if (parent(r) == rank) out.push_back(r);
    return out;
  }
  int root() const { return rank_at(largest_power() - 1); }

 private:
  int largest_power() const {
    int power = 1;
    while (2 * power <= ranks_) power *= 2;
    return power;
  }
  /// The second tree is the first one's mirror image, or is shifted by one rank if a mirror would
  /// leave the same ranks inside.
  int position(int rank) const {
    if (!second_) return rank;
    return ranks_ % 2 == 0 ? ranks_ - 1 - rank : (rank + 1) % ranks_;
  }
  int rank_at(int position) const {
    if (!second_) return position;
    return ranks_ % 2 == 0 ? ranks_ - 1 - position : (position + ranks_ - 1) % ranks_;
  }

  int ranks_;
  bool second_;
  int height_ = 0;
};

/// The two halves of an array, each divided into blocks.
struct Blocks {
  explicit Blocks(std::int64_t count) : count_(count) {
    number = std::clamp<std::int64_t>(half(0).count / smallest_block, 1, most_blocks);
  }
  Elements half(int tree) const {
    const Part part = part_of(static_cast<std::size_t>(count_), tree, 2);
    return {Array::in, static_cast<std::int64_t>(part.begin),
            static_cast<std::int64_t>(part.count)};
  }
  Elements block(int tree, std::int64_t b) const {
    const Elements all = half(tree);
    const std::int64_t begin = all.count * b / number, end = all.count * (b + 1) / number;
    return {Array::in, all.begin + begin, end - begin};
  }
  /// Scratch memory for the block that the second child of a rank sends.
  Elements spare(int tree, std::int64_t b) const {
    return {Array::scratch, tree * longest(), block(tree, b).count};
  }
  std::int64_t longest() const { return half(0).count / number + 1; }

  std::int64_t number = 1;

 private:
  std::int64_t count_;
};

/// One rank in one of the trees. A block leaves a rank of depth d upward in step
/// block + height - d, and downward in step block + height + d.
struct Member {
  Tree tree;
  int parent;
  std::vector<int> children;
  int depth;

  Member(int ranks, bool second, int rank)
      : tree(ranks, second),
        parent(tree.parent(rank)),
        children(tree.children(rank)),
        depth(tree.depth(rank)) {}
};

void all_reduce(Exchange& exchange) {
  const int size = exchange.size(), rank = exchange.rank();
  const Blocks blocks(exchange.count(Array::in));
  const Member members[] = {{size, false, rank}, {size, true, rank}};
  const std::int64_t steps =
      blocks.number + 2 * std::max(members[0].tree.height(), members[1].tree.height()) - 1;
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<Sending> sends;
    std::vector<Receiving> receives;
    std::vector<std::pair<Elements, Elements>> spares;  // to be added once they have arrived
    const auto block_of = [&](const Member& member, std::int64_t delay) {
      const std::int64_t b = step - member.tree.height() - delay;
      return b >= 0 && b < blocks.number ? b : none;
    };
    for (int t = 0; t < 2; ++t) {
      const Member& member = members[t];
      if (const auto b = block_of(member, -member.depth); b != none && member.parent != none)
        sends.push_back({member.parent, blocks.block(t, b)});
      if (const auto b = block_of(member, -member.depth - 1); b != none)
        for (std::size_t c = 0; c < member.children.size(); ++c) {
          const Elements block = blocks.block(t, b), spare = blocks.spare(t, b);
          if (c == 0) {
            receives.push_back({member.children[c], block, block});
          } else {
            receives.push_back({member.children[c], spare});
            spares.emplace_back(spare, block);
          }
        }
      if (const auto b = block_of(member, member.depth); b != none)
        for (const int child : member.children) sends.push_back({child, blocks.block(t, b)});
      if (const auto b = block_of(member, member.depth - 1); b != none && member.parent != none)
        receives.push_back({member.parent, blocks.block(t, b)});
    }
    if (!sends.empty() || !receives.empty()) exchange.step(sends, receives);
    for (const auto& [spare, block] : spares) exchange.add(spare, block);
  }
}

void add_up_below(const Tree& tree, int rank, std::vector<Addition>& additions) {
  for (const int child : tree.children(rank)) add_up_below(tree, child, additions);
  for (const int child : tree.children(rank)) additions.push_back({rank, child});
}

std::vector<Sum> sums(Call::Kind kind, std::int64_t count, const std::vector<int>& hosts) {
  if (kind == Call::Kind::reduce_scatter) return ring_row().sums(kind, count, hosts);
  const Blocks blocks(count);
  std::vector<Sum> out;
  for (int t = 0; t < 2; ++t) {
    const Tree tree(static_cast<int>(hosts.size()), t == 1);
    const Elements half = blocks.half(t);
    out.push_back({half.begin, half.count, {}});
    add_up_below(tree, tree.root(), out.back().additions);
  }
  return out;
}

std::int64_t scratch(std::int64_t count) { return 2 * Blocks(count).longest(); }

}  // namespace

AlgorithmRow tree_row() {
  const AlgorithmRow ring = ring_row();
  return {.algorithm = Algorithm::tree,
          .summary = "sums up and down two binary trees, half the array along each",
          .all_reduce = all_reduce,
          .reduce_scatter = ring.reduce_scatter,
          .all_gather = ring.all_gather,
          .sums = sums,
          .scratch = scratch};
}

}  // namespace ringside::peer
