// The graphs of gossip: what workers mix, each with equal weights.
#include "peer/schemes/gossip_graph.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace ringside::peer {
namespace {

using Matrix = std::vector<std::vector<double>>;

/// Row w: the weights with which worker w takes its own values and those of its sources.
Matrix mixing(Graph graph, int workers, std::int64_t done) {
  const auto size = static_cast<std::size_t>(workers);
  Matrix out(size, std::vector<double>(size));
  for (int w = 0; w < workers; ++w) {
    const std::vector<int> sources = sources_in(graph, w, workers, done);
    const double share = 1.0 / static_cast<double>(sources.size() + 1);
    out[static_cast<std::size_t>(w)][static_cast<std::size_t>(w)] += share;
    for (const int source : sources)
      out[static_cast<std::size_t>(w)][static_cast<std::size_t>(source)] += share;
  }
  return out;
}

/// Lian et al. 2017 need it: rows and columns add up to 1.
TEST(GossipGraphs, MixDoublyStochastically) {
  for (const Graph graph :
       {Graph::ring, Graph::torus, Graph::exponential, Graph::one_peer, Graph::complete})
    for (int workers = 1; workers <= 9; ++workers)
      for (std::int64_t done = 0; done < 4; ++done) {
        const Matrix matrix = mixing(graph, workers, done);
        std::vector<double> columns(matrix.size());
        for (const std::vector<double>& row : matrix) {
          EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1, 1e-12);
          for (std::size_t c = 0; c < row.size(); ++c) columns[c] += row[c];
        }
        for (const double sum : columns)
          EXPECT_NEAR(sum, 1, 1e-12) << name_of(graph) << " of " << workers << " after " << done;
      }
}

/// Weights beside the values are what a star needs: its centre hears of all.
TEST(GossipGraphs, OfAStarMixNotDoublyStochastically) {
  const Matrix matrix = mixing(Graph::star, 4, 0);
  double centre = 0;
  for (const std::vector<double>& row : matrix) centre += row[0];
  EXPECT_NEAR(centre, 0.25 + 3 * 0.5, 1e-12);
}

TEST(GossipGraphs, CountTheWorkersThatTakeAMessage) {
  for (const Graph graph : {Graph::ring, Graph::torus, Graph::exponential, Graph::one_peer,
                            Graph::complete, Graph::star})
    for (int workers = 1; workers <= 9; ++workers)
      for (int w = 0; w < workers; ++w) {
        int taken = 0;
        for (int other = 0; other < workers; ++other)
          for (const int source : sources_in(graph, other, workers, 3))
            taken += source == w ? 1 : 0;
        EXPECT_EQ(taken, out_degree(graph, w, workers)) << name_of(graph) << " " << workers;
      }
}

}  // namespace
}  // namespace ringside::peer
