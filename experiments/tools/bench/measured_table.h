// Tables of measured collectives, as nccl-tests and `ringside bench comm` write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ringside::tools::bench {

struct MeasuredTable {
  std::int64_t ranks = 0;             // 0 if the table does not say how many there were
  std::vector<std::int64_t> sizes{};  // bytes of the whole array, ascending
  std::vector<double> us{};           // microseconds, one for each size
};

/// Reads what a program of nccl-tests printed (its columns are found by their headings, which
/// differ between releases; the lines above them list the ranks), what nccl-tests 2.19 wrote with
/// `-J`, or what `bench comm --json` wrote, of which only the rows of `operation` count, at the
/// only world there is or at `world` if that is not 0. The times are those out of place, or in
/// place where a row has no others. Throws Error that names the file, and the line if the file has
/// lines, if there are no rows, a size comes twice, a bandwidth is not size / time, or something
/// else cannot be read.
MeasuredTable read_measured_table(const std::filesystem::path& file, const std::string& operation,
                                  std::int64_t world);

}  // namespace ringside::tools::bench
