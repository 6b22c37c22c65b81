// Published tables beside the recomputed ones: the output of `ringside reproduce`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"
#include "experiments/runner/report/published.h"

namespace ringside::runner {

/// How a published figure and what came out here go together.
enum class Agreement : std::uint8_t {
  to_the_digit,  // equal if it is rounded or cut off where the published figure is; or the same
                 // word
  within,        // at most largest_deviation apart
  contradicted,  // further apart, and Published::contradiction says why
  open,          // further apart, and nothing says why
  failed         // nothing came out
};
inline constexpr std::string_view agreement_names[] = {"to the printed digit", "within 10%",
                                                       "contradicted", "OPEN", "FAILED"};
constexpr EnumNames names_of(Agreement) { return agreement_names; }

/// The largest share by which a figure that agrees may be off.
inline constexpr double largest_deviation = 0.1;

Agreement agreement_of(const PublishedFigure& figure);
/// The number of decimals with which a published figure is printed: the fewest that say it.
int decimals_of(double published);

/// Something else than a number that was published, such as which scheme to take.
struct ReproducedChoice {
  std::string question{};   // "BERT-Large on 8 V100"
  std::string asked{};      // "advised"
  std::string published{};  // "ddp, 16 bits"
  std::string here{};       // what came out; empty if nothing did
  bool agrees = false;
  std::string reason{};         // of what came out
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

/// In Markdown: what the table assumes, a line for each figure, what contradicts figures, what
/// failed, and how many figures agree.
std::string reproduced_text(const ReproducedTable& table);
/// One line for each table: how many of its figures agree.
std::string reproduced_summary(const std::vector<ReproducedTable>& tables);
/// The tables, and a list of all their figures.
nlohmann::ordered_json reproduced_json(const std::vector<ReproducedTable>& tables);

}  // namespace ringside::runner
