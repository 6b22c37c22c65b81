// The text that `advise` prints.
#pragma once

#include <string>

#include "experiments/tools/advise/search.h"

namespace ringside::tools::advise {

/// The text of the question: the model, its batch, the devices.
std::string question_text(const Question& question);

/// The first `most` ranked candidates as a table, the advised one with its reason, and the
/// candidates that are as fast within the cluster's errors. With `explain` also a table of all
/// others, each with the reason why it is not advised. If nothing fits, names the memory that is
/// missing.
std::string advice_text(const Question& question, const Advice& advice, std::size_t most,
                        bool explain);

/// Whether the errors that the cluster states leave open which of the advised candidate and `one`
/// is faster.
bool is_equal(const Advice& advice, const Considered& one);

/// The reason for the advised candidate instead of a simpler one: a line without its end. Each
/// candidate is named once.
std::string reason_of(const Question& question, const Advice& advice);

}  // namespace ringside::tools::advise
