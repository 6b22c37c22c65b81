// Published tables next to the recomputed ones: the output of `ringside reproduce`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"
#include "experiments/runner/report/published.h"

namespace ringside::runner {

/// The agreement of a published figure with the recomputed one.
enum class Agreement : std::uint8_t {
  to_the_digit,  // equal if it is rounded or cut off where the published figure is; or the same
                 // word
  within,        // at most largest_deviation apart
  contradicted,  // further apart, and Published::contradiction says why
  open,          // further apart, without an explanation
  failed         // there is no recomputed figure
};
inline constexpr std::string_view agreement_names[] = {"to the printed digit", "within 10%",
                                                       "contradicted", "OPEN", "FAILED"};
constexpr EnumNames names_of(Agreement) { return agreement_names; }

/// The largest share by which a figure that agrees may be off.
inline constexpr double largest_deviation = 0.1;

Agreement agreement_of(const PublishedFigure& figure);
/// The number of decimals with which a published figure is printed: the fewest that say it.
int decimals_of(double published);

/// A published answer that is no number, such as the best scheme.
struct ReproducedChoice {
  std::string question{};   // "BERT-Large on 8 V100"
  std::string asked{};      // "advised"
  std::string published{};  // "ddp, 16 bits"
  std::string here{};       // the recomputed answer; empty if there is none
  bool agrees = false;
  std::string reason{};         // of the recomputed answer
  std::string contradiction{};  // why the published answer cannot be right, or not here
  AssumedOf assumed{};
};

Agreement agreement_of(const ReproducedChoice& choice);

struct ReproducedTable {
  std::string name{}, title{}, source{}, assumes{};
  std::vector<PublishedFigure> figures{};
  std::vector<ReproducedChoice> choices{};
  std::vector<std::string> failures{};  // files that could not be compared, and why
};

/// In Markdown: the assumptions of the table, a line for each figure, contradictions, failures, and
/// the number of figures that agree.
std::string reproduced_text(const ReproducedTable& table);
/// One line for each table with the number of its figures that agree.
std::string reproduced_summary(const std::vector<ReproducedTable>& tables);
/// The tables, and a list of all their figures.
nlohmann::ordered_json reproduced_json(const std::vector<ReproducedTable>& tables);

}  // namespace ringside::runner
