// Two binary trees through the ranks of a group.
#pragma once

#include <algorithm>
#include <vector>

namespace ringside::peer {

/// A binary tree through ranks 0 to p - 1. In the first tree all even ranks are leaves; in the
/// second tree all odd ranks are.
class BinaryTree {
 public:
  static constexpr int none = -1;

  BinaryTree(int ranks, bool second) : ranks_(ranks), second_(second) {
    for (int r = 0; r < ranks; ++r) height_ = std::max(height_, depth(r));
  }

  int height() const { return height_; }
  int depth(int rank) const {
    const int up = parent(rank);
    return up == none ? 0 : 1 + depth(up);
  }
  int parent(int rank) const {
    // Node i = 1, 2, ... has as many levels below it as i has trailing zero bits. Nodes above p do
    // not exist; their children belong to the nearest ancestor that exists.
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
  /// The second tree mirrors the first one. With an odd number of ranks, where a mirror would have
  /// the same leaves, it is the first tree shifted by one rank.
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

/// The place of one rank in one of the trees.
struct TreeMember {
  TreeMember(int ranks, bool second, int rank) {
    const BinaryTree tree(ranks, second);
    height = tree.height();
    parent = tree.parent(rank);
    children = tree.children(rank);
    depth = tree.depth(rank);
  }
  int height = 0, parent = 0, depth = 0;
  std::vector<int> children;
};

}  // namespace ringside::peer
