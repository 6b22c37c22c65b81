// The part of `ringside calibrate` that fits a cluster to figures: --from.
#pragma once

#include <string>
#include <vector>

#include "experiments/tools/cli/process.h"

namespace ringside::tools::cli {

struct FitArguments {
  std::vector<std::string> files;   // with figures of a cluster
  std::string cluster;              // the cluster file whose figures count; empty: the only one
  std::string results = "results";  // the folder for the fitted cluster
};

/// Fits a cluster to the figures of arguments.files (experiments/tools/calibrate/cluster_fit.h),
/// and returns the exit status. Blocks.
int fit_cluster(const FitArguments& arguments, const Process& process);

}  // namespace ringside::tools::cli
