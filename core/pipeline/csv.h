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
/// UNSHARD, RESHARD and REDUCE_GRAD, which schemes do by themselves. Lines may end as those of
/// Windows, and the text may begin with the mark of UTF-8. Throws Error in one line, which names
/// `file`, row, cell, cause and remedy, for any other word, and for more than most_actions. The
/// schedule is not checked yet.
Schedule parse_csv(std::string_view text, const std::string& file, const std::string& name);

/// The same, and checks the schedule: check(), and check_held() with `most_in_flight`. Their errors
/// name `file`, row and cell too.
Schedule checked_csv(std::string_view text, const std::string& file, const std::string& name,
                     std::int64_t most_in_flight = 0);

/// The text of a file. Throws Error with the cause and what to do if it cannot be read, is no file,
/// or has more than most_csv_bytes.
std::string csv_text(const std::filesystem::path& file);

/// checked_csv() of a file, whose name without ending is that of the schedule.
Schedule read_csv(const std::filesystem::path& file, std::int64_t most_in_flight = 0);

}  // namespace ringside::pipeline
