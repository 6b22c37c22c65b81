#include "peer/schemes/gossip_graph.h"

#include <algorithm>
#include <bit>
#include <set>

namespace ringside::peer {
namespace {

/// The larger of the two extents of a torus: the smallest divisor that is at least the root.
int torus_width(int workers) {
  int width = 1;
  while (width * width < workers || workers % width != 0) ++width;
  return width;
}

}  // namespace

std::vector<int> sources_in(Graph graph, int worker, int workers, std::int64_t done) {
  std::set<int> out;
  const auto add = [&](int other) { out.insert((other % workers + workers) % workers); };
  if (graph == Graph::ring) {
    add(worker - 1);
    add(worker + 1);
  } else if (graph == Graph::torus) {
    const int width = torus_width(workers), height = workers / width;
    const int row = worker / width, column = worker % width;
    for (const int step : {width - 1, 1}) out.insert(row * width + (column + step) % width);
    for (const int step : {height - 1, 1}) out.insert((row + step) % height * width + column);
  } else if (graph == Graph::exponential) {
    for (int distance = 1; distance < workers; distance *= 2) add(worker - distance);
  } else if (graph == Graph::one_peer) {
    const int distances =
        std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(workers - 1))));
    add(worker - (1 << done % distances));
  } else if (graph == Graph::complete || worker == 0) {
    for (int other = 0; other < workers; ++other) add(other);
  } else {
    add(0);
  }
  out.erase(worker);
  return {out.begin(), out.end()};
}

int out_degree(Graph graph, int worker, int workers) {
  int degree = 0;
  for (int other = 0; other < workers; ++other) {
    const std::vector<int> sources = sources_in(graph, other, workers, 0);
    degree += static_cast<int>(std::count(sources.begin(), sources.end(), worker));
  }
  return degree;
}

int largest_out_degree(Graph graph, int workers) {
  int largest = 0;
  for (int worker = 0; worker < workers; ++worker)
    largest = std::max(largest, out_degree(graph, worker, workers));
  return largest;
}

}  // namespace ringside::peer
