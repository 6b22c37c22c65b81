// Schedules as CSV files in the form of torch.distributed.pipelining.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/pipeline/schedule.h"

namespace ringside::pipeline {

/// A row a rank, a cell an action: "0F0,0SEND_F0,0F1". With sends it is what PyTorch calls
/// compute_comms, without them compute_only; PyTorch reads both.
std::string to_csv(const Schedule& schedule);

/// Files with more bytes are refused unread.
inline constexpr std::size_t most_csv_bytes = 32 << 20;

/// Reads the text of a file of unknown origin. `name` becomes that of the schedule. Row i is rank
/// i; a stage is on the rank whose row has it; micro-batches are numbered from 0 to the highest
/// number that is there. Empty cells, in which PyTorch draws waiting, are skipped, and so are
/// UNSHARD, RESHARD and REDUCE_GRAD, which schemes do by themselves. Throws Error, which names
/// `file`, row and cell, for any other word, and for more than most_actions. The schedule is not
/// checked yet.
Schedule parse_csv(std::string_view text, const std::string& file, const std::string& name);

/// Reads a file and checks the schedule, whose name is that of the file without ending. Throws
/// Error as parse_csv() and check() do, and with the system's cause if the file cannot be read.
Schedule read_csv(const std::filesystem::path& file);

}  // namespace ringside::pipeline
