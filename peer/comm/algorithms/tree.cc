// Double binary tree, for an array of S bytes on p ranks (Sanders, Speck and Traff 2009; NCCL uses
// such trees since 2.4): one half of the array is summed up along one tree to its root and goes
// back down, the other half along a second tree. A rank inside one tree is a leaf of the other, so
// all ranks send at most 2 * S. The halves move in k blocks, one behind the other: with trees of
// height h, an all-reduce costs k + 2 * h - 1 steps, and h is about log2 p. It has no
// reduce-scatter and no all-gather of its own; those of the ring take their place.
#include <algorithm>

#include "peer/comm/algorithms/algorithms.h"
#include "peer/comm/algorithms/binary_tree.h"
#include "peer/comm/part.h"

namespace ringside::peer {
namespace {

constexpr int none = BinaryTree::none;
constexpr std::int64_t smallest_block = 16 * 1024, most_blocks = 64;

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

void tree_all_reduce(Exchange& exchange) {
  const int size = exchange.size(), rank = exchange.rank();
  const Blocks blocks(exchange.count(Array::in));
  // A block leaves a rank of depth d upward in step block + height - d, and downward in step
  // block + height + d.
  const TreeMember members[] = {{size, false, rank}, {size, true, rank}};
  const std::int64_t steps = blocks.number + 2 * std::max(members[0].height, members[1].height) - 1;
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<Sending> sends;
    std::vector<Receiving> receives;
    std::vector<std::pair<Elements, Elements>> spares;  // to be added once they have arrived
    const auto block_of = [&](const TreeMember& member, std::int64_t delay) {
      const std::int64_t b = step - member.height - delay;
      return b >= 0 && b < blocks.number ? b : none;
    };
    for (int t = 0; t < 2; ++t) {
      const TreeMember& member = members[t];
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

void add_up_below(const BinaryTree& tree, int rank, std::vector<Addition>& additions) {
  for (const int child : tree.children(rank)) add_up_below(tree, child, additions);
  for (const int child : tree.children(rank)) additions.push_back({rank, child});
}

std::vector<Sum> tree_sums(Collective::Kind kind, std::int64_t count,
                           const std::vector<int>& hosts) {
  if (kind == Collective::Kind::reduce_scatter) return ring_row().sums(kind, count, hosts);
  const Blocks blocks(count);
  std::vector<Sum> out;
  for (int t = 0; t < 2; ++t) {
    const BinaryTree tree(static_cast<int>(hosts.size()), t == 1);
    const Elements half = blocks.half(t);
    out.push_back({half.begin, half.count, {}});
    add_up_below(tree, tree.root(), out.back().additions);
  }
  return out;
}

std::int64_t tree_scratch(std::int64_t count) { return 2 * Blocks(count).longest(); }

}  // namespace

AlgorithmRow tree_row() {
  const AlgorithmRow ring = ring_row();
  return {.algorithm = Algorithm::tree,
          .summary = "sums up and down two binary trees, half the array along each",
          .all_reduce = tree_all_reduce,
          .reduce_scatter = ring.reduce_scatter,
          .all_gather = ring.all_gather,
          .sums = tree_sums,
          .scratch = tree_scratch};
}

}  // namespace ringside::peer
