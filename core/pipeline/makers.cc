#include "core/pipeline/makers.h"

#include <algorithm>
#include <cctype>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/row_list.h"
#include "core/pipeline/action_list.h"

namespace ringside::pipeline {

// Each is defined in a file of its own.
MakerInfo sequential_row();
MakerInfo gpipe_row();
MakerInfo one_f_one_b_row();
MakerInfo interleaved_row();
MakerInfo zb_h1_row();
MakerInfo zb_h2_row();
MakerInfo zb_v_row();

namespace {

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string_view problem_of_chunks(MakerInfo::Chunks allowed, int chunks) {
  if (allowed == MakerInfo::Chunks::one && chunks != 1) return "a rank has one stage";
  if (allowed == MakerInfo::Chunks::two && chunks != 2) return "a rank has two stages";
  return "";
}

}  // namespace

const std::vector<MakerInfo>& maker_rows() {
  static const std::vector<MakerInfo> rows = {sequential_row(),  gpipe_row(), one_f_one_b_row(),
                                              interleaved_row(), zb_h1_row(), zb_h2_row(),
                                              zb_v_row()};
  return rows;
}

const MakerInfo& find_maker(std::string_view name) {
  for (const MakerInfo& row : maker_rows())
    if (!row.torch.empty() && same_letters(row.torch, name)) return row;
  return find_row(maker_rows(), "schedule", name);
}

Schedule empty_schedule(std::string_view name, MakerInfo::Chunks allowed, int ranks, int chunks,
                        std::int64_t micro_batches) {
  if (ranks < 1 || chunks < 1 || micro_batches < 1)
    throw Error("schedule {}: {}, {} a rank and {}; give at least one of each", name,
                counted(ranks, "rank"), counted(chunks, "stage"),
                counted(micro_batches, "micro-batch", "es"));
  if (const std::string_view problem = problem_of_chunks(allowed, chunks); !problem.empty())
    throw Error("schedule {}: {}, not {}", name, problem, chunks);
  // F, I and W, and two sends and two receives
  constexpr std::int64_t of_a_micro_batch = 7;
  const std::int64_t most = most_actions / of_a_micro_batch;
  const std::int64_t stages = static_cast<std::int64_t>(ranks) * chunks;
  if (stages > most || micro_batches > most / stages)
    throw Error("schedule {}: {} and {} are too many; their product may be at most {}", name,
                counted(stages, "stage"), counted(micro_batches, "micro-batch", "es"), most);
  Schedule out{std::string(name), micro_batches, {}, {}};
  for (int stage = 0; stage < stages; ++stage) out.ranks_of.push_back(stage % ranks);
  out.actions.resize(static_cast<std::size_t>(ranks));
  return out;
}

}  // namespace ringside::pipeline
